"""What it costs to know that uploads arrived, beside what others cost for the same.

``README.md`` says how to run it and how to read the result.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uploads_audit
import uploads_growth
import uploads_hash
import uploads_training_thread
from harness import Section, machine, timed
from workload import Workload

SECTIONS: dict[str, tuple[str, Callable[[Workload, Section], None]]] = {
    "training_thread": ("what an upload costs the training thread", uploads_training_thread.measure),
    "hash": ("how fast files are summed", uploads_hash.measure),
    "audit": ("how long it takes to verify many small objects", uploads_audit.measure),
    "memory": ("how much memory summing and an audit take", uploads_audit.measure_memory),
    "growth": ("how an audit grows with the number of uploads", uploads_growth.measure),
}


def main() -> int:
    """Run sections, print their tables, keep them as JSON; 1 if a promise is not met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)} (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="see that it runs; its figures mean nothing")
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the result as JSON")
    arguments = parser.parse_args()
    if unknown := set(arguments.sections) - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    result: dict[str, Any] = {"version": 1, "quick": arguments.quick, "machine": machine(), "sections": {}}
    print("\n".join(f"{name}: {value}" for name, value in result["machine"].items()))
    all_met = True
    with Workload(quick=arguments.quick) as work:
        for name in arguments.sections or SECTIONS:
            question, measure = SECTIONS[name]
            section = Section(name, question, judged=not arguments.quick)
            seconds = timed(functools.partial(measure, work, section))
            load = os.getloadavg()[0]
            section.notes.append(f"took {seconds:.0f} s; load average of the machine afterwards {load:.1f}")
            print(f"\n{section.to_text()}", flush=True)
            result["sections"][name] = section.to_json()
            all_met = all_met and section.all_met
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main())
