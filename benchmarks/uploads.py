"""What it costs to know that uploads arrived, beside what others cost for the same.

``README.md`` says how to run it and how to read the result.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import uploads_audit
import uploads_growth
import uploads_hash
import uploads_training_thread
from harness import Section, run_sections
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
    chosen = {name: SECTIONS[name] for name in arguments.sections or SECTIONS}
    with Workload(quick=arguments.quick) as work:
        return run_sections(chosen, work, quick=arguments.quick, output=arguments.output)


if __name__ == "__main__":
    sys.exit(main())
