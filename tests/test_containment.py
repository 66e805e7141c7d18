"""A fault of ours is logged, counted and reported, and never reaches the training loop."""

from __future__ import annotations

import logging
import threading

import pytest

from composer_obs.containment import Guard
from composer_obs.findings import Finding, ObjectLocation


@pytest.fixture
def reported() -> list[Finding]:
    return []


def fail(guard: Guard, where: str = "batch_end", error: BaseException | None = None) -> None:
    with guard(where):
        raise error or ValueError("broken")


def test_a_fault_does_not_come_out_and_work_without_one_goes_on(reported: list[Finding]) -> None:
    guard = Guard("demo", on_fault=reported.append)
    done = []
    fail(guard)
    with guard("batch_end"):
        done.append(1)
    assert done == [1]
    assert (guard.faults, guard.off) == (1, False)


def test_a_fault_is_a_finding_and_a_log_record_with_its_traceback(
    reported: list[Finding], caplog: pytest.LogCaptureFixture
) -> None:
    fail(Guard("demo", on_fault=reported.append))
    (finding,) = reported
    assert finding.rule.code == "EN901"
    assert finding.where == ObjectLocation("demo.batch_end")
    assert finding.message == "demo failed in batch_end: ValueError: broken"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "in fail" in record.getMessage()


def test_the_same_fault_is_told_once_and_counted_each_time(
    reported: list[Finding], caplog: pytest.LogCaptureFixture
) -> None:
    guard = Guard("demo", on_fault=reported.append)
    for _ in range(5):
        fail(guard)
    assert guard.faults == 5
    assert len(reported) == len(caplog.records) == 1


def test_another_place_or_kind_of_fault_is_told_again(reported: list[Finding]) -> None:
    guard = Guard("demo", on_fault=reported.append)
    fail(guard, "batch_end")
    fail(guard, "epoch_end")
    fail(guard, "batch_end", KeyError("x"))
    assert len(reported) == 3


def test_after_the_limit_it_is_off_and_says_so_once(reported: list[Finding]) -> None:
    guard = Guard("demo", limit=3, on_fault=reported.append)
    for number in range(6):
        assert guard.off == (number >= 3)
        fail(guard)
    assert guard.off
    assert [finding.rule.code for finding in reported] == ["EN901", "EN902"]
    assert reported[1].message == "demo is off after 3 faults; the last was ValueError: broken"


def test_strict_lets_every_fault_through_uncounted() -> None:
    guard = Guard("demo", strict=True)
    with pytest.raises(ValueError, match="broken"):
        fail(guard)
    assert guard.faults == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_is_to_end_the_process_is_no_fault(error: BaseException) -> None:
    guard = Guard("demo")
    with pytest.raises(type(error)):
        fail(guard, error=error)
    assert guard.faults == 0


def test_a_reporter_that_fails_itself_is_contained_too(caplog: pytest.LogCaptureFixture) -> None:
    def broken(finding: Finding) -> None:
        raise RuntimeError("the reporter is broken")

    guard = Guard("demo", on_fault=broken)
    fail(guard)
    assert guard.faults == 1
    assert "could not report a fault of its own" in caplog.text


def test_no_secret_reaches_log_or_finding(
    reported: list[Finding], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    guard = Guard("demo", limit=1, on_fault=reported.append)
    fail(guard, error=ValueError("login with very-secret-value refused"))
    assert len(reported) == 2
    assert "very-secret-value" not in caplog.text + repr(reported)
    assert all(record.exc_info is None for record in caplog.records)


def test_faults_of_many_threads_are_all_counted(reported: list[Finding]) -> None:
    guard = Guard("demo", limit=10**9, on_fault=reported.append)
    threads = [threading.Thread(target=lambda: [fail(guard) for _ in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert guard.faults == 800
    assert len(reported) == 1
