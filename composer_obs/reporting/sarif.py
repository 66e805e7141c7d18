"""Findings as SARIF 2.1.0, which code scanning services and editors read.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0 Plus Errata 01".
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from composer_obs import __version__
from composer_obs.findings import ArtifactLocation, FileLocation, Finding, Location, Rule, Severity
from composer_obs.redaction import redact, redact_values

__all__ = ["format_findings"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
# Characters of a URI that stand for themselves (RFC 3986, 2.2 and 2.3). A name may hold "#", "?" and
# "%" as ordinary characters, so those are encoded.
_SAFE = "/:@!$&'()*+,;=-._~"


def format_findings(findings: Sequence[Finding]) -> str:
    """A SARIF log of one run, with the rules that the findings break.

    Example:
        >>> rule = Rule("UP001", "missing", Severity.ERROR, "The store has no such object.", "-", "-")
        >>> log = format_findings([Finding(rule, "it is gone", ArtifactLocation("s3://b/a b.pt", 0))])
        >>> result = json.loads(log)["runs"][0]["results"][0]
        >>> result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        's3://b/a%20b.pt'
    """
    broken = sorted({finding.rule for finding in findings}, key=lambda rule: rule.code)
    index = {rule.code: position for position, rule in enumerate(broken)}
    seen: Counter[str] = Counter()
    results = []
    for finding in findings:
        fingerprint = _fingerprint(finding)
        seen[fingerprint] += 1
        results.append(
            {
                "ruleId": finding.rule.code,
                "ruleIndex": index[finding.rule.code],
                "level": _LEVELS[finding.level],
                "message": {"text": redact(_sentence(finding))},
                "locations": [_location(finding.where)],
                # The second of two findings that look alike must not be taken for the first.
                "partialFingerprints": {"finding/v1": f"{fingerprint}:{seen[fingerprint]}"},
            }
        )
    driver = {
        "name": "composer-obs",
        "semanticVersion": __version__,
        "rules": [redact_values(_descriptor(rule)) for rule in broken],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _descriptor(rule: Rule) -> dict[str, Any]:
    text = f"{rule.reason}\n\nInstead of: {rule.bad}\nGood: {rule.good}"
    markdown = f"{rule.reason}\n\n**Instead of:** {rule.bad}\n\n**Good:** {rule.good}"
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.name.replace("-", " ")},
        "fullDescription": {"text": rule.reason},
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"since": rule.since},
    }


def _sentence(finding: Finding) -> str:
    return f"{finding.message}\nfix: {finding.fix}" if finding.fix else finding.message


def _location(where: Location) -> dict[str, Any]:
    if isinstance(where, FileLocation):
        region = {"startLine": where.line, "startColumn": where.column}
        if where.end_column is not None:
            region["endColumn"] = where.end_column
        artifact = {"uri": _file_uri(redact(where.file))}
        return {"physicalLocation": {"artifactLocation": artifact, "region": region}}
    logical = {"fullyQualifiedName": redact(str(where))}
    if isinstance(where, ArtifactLocation):
        artifact = {"uri": _encode(redact(where.artifact))}
        return {
            "physicalLocation": {"artifactLocation": artifact},
            "logicalLocations": [{**logical, "kind": "resource"}],
        }
    return {"logicalLocations": [{**logical, "kind": "object"}]}


def _file_uri(path: str) -> str:
    """Absolute paths get a scheme; relative ones stay relative, as code scanning wants them."""
    if os.path.isabs(path):
        return Path(path).as_uri()
    # A colon in the first part would make it a scheme (RFC 3986, 4.2).
    return _encode(path.replace(os.sep, "/"), safe=_SAFE.replace(":", ""))


def _encode(uri: str, safe: str = _SAFE) -> str:
    return quote(uri.encode("utf-8", "surrogatepass"), safe=safe)


def _fingerprint(finding: Finding) -> str:
    """The same for the same trouble next time: without lines, which move, and sizes, which change."""
    where = finding.where
    place = [where.file, finding.message] if isinstance(where, FileLocation) else [str(where)]
    text = "\0".join([finding.rule.code, *place])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
