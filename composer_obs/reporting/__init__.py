"""Findings made readable: for a person, a program, GitHub, or any tool that knows SARIF.

One module a format, each with one function ``format_findings``. Every text in what they return is
redacted.
"""
