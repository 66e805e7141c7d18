"""No planted secret survives, and ordinary text is left as it is."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.redaction import MASK, is_secret_name, redact, redact_mapping, redact_values

# What keys, tokens and passwords are made of once they are part of a URL, header or setting.
SECRETS = st.text(string.ascii_letters + string.digits + "+/_-.~", min_size=12, max_size=40)
AROUND = st.text(string.ascii_letters + string.digits + " \n.,:;/()'\"", max_size=20)


def from_alphabet(alphabet: str, low: int, high: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=low, max_size=high)


ALPHANUMERIC = string.ascii_letters + string.digits


class TestPlantedSecrets:
    @given(
        SECRETS,
        AROUND,
        AROUND,
        st.sampled_from(["MY_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "apiKey"]),
    )
    def test_the_value_of_a_secret_variable_survives_nowhere(
        self, secret: str, before: str, after: str, name: str
    ) -> None:
        text = f"{before}{secret}{after}{secret}"
        assert secret not in redact(text, environ={name: secret, "HOME": "/root"})

    @given(st.lists(SECRETS, min_size=2, max_size=4), AROUND)
    def test_secrets_that_contain_one_another_leave_no_rest(self, secrets: list[str], between: str) -> None:
        longer = "".join(secrets)
        environ = {f"TOKEN_{number}": secret for number, secret in enumerate([*secrets, longer])}
        assert redact(f"({longer})", environ=environ) == f"({MASK})"

    @given(SECRETS, st.sampled_from(["s3", "https", "sftp", "postgres+psycopg2"]))
    def test_user_and_password_of_a_uri_do_not_survive_and_the_host_does(
        self, secret: str, scheme: str
    ) -> None:
        password = secret.replace("/", "@")  # an "@" in a password is not the last one
        redacted = redact(f"put {scheme}://alice:{password}@host.example/bucket/key", environ={})
        assert password not in redacted
        assert "alice" not in redacted
        assert redacted == f"put {scheme}://{MASK}@host.example/bucket/key"

    @given(
        SECRETS,
        st.sampled_from([
            "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature", "AWSAccessKeyId",
            "sig", "token", "access_token", "aws_secret_access_key", "password", "api_key", "apikey", "SECRET",
            "client_secret", "SharedAccessKey", "AccountKey", "aws_access_key_id", "private_key", "Authorization",
        ]),
        st.sampled_from(["?{}={}&x=1", "{}: {}", "{{'{}': '{}'}}", '{{"{}": "{}"}}', "({}='{}')", "{} = {}", "{}={};"]),
    )  # fmt: skip
    def test_the_value_of_a_parameter_or_setting_with_a_secret_name_does_not_survive(
        self, secret: str, name: str, form: str
    ) -> None:
        redacted = redact(form.format(name, secret), environ={})
        assert secret not in redacted
        assert name in redacted

    @given(SECRETS.filter(lambda secret: len(secret) >= 16))
    def test_tokens_of_an_authorization_header_do_not_survive(self, secret: str) -> None:
        for text in (
            f"Authorization: Bearer {secret}",
            f"authorization: basic {secret}",
            f"got Bearer {secret}!",
        ):
            assert secret not in redact(text, environ={})

    @given(
        st.one_of(
            from_alphabet(string.ascii_uppercase + string.digits, 16, 16).map(lambda key: f"AKIA{key}"),
            from_alphabet(ALPHANUMERIC + "-", 20, 40).map(lambda key: f"xoxb-{key}"),
            from_alphabet(ALPHANUMERIC, 36, 36).map(lambda key: f"ghp_{key}"),
            from_alphabet(ALPHANUMERIC + "_", 60, 82).map(lambda key: f"github_pat_{key}"),
            from_alphabet(ALPHANUMERIC, 34, 34).map(lambda key: f"hf_{key}"),
            from_alphabet(ALPHANUMERIC, 48, 48).map(lambda key: f"sk-{key}"),
            from_alphabet(ALPHANUMERIC, 20, 40).map(lambda key: f"eyJ{key}.eyJ{key}.{key}"),
        ),
        st.sampled_from(["{}", "key {} refused", "'{}'", "({})", "a={},", "s3://bucket/{}/x"]),
    )
    def test_keys_and_tokens_of_known_shape_do_not_survive(self, secret: str, form: str) -> None:
        assert secret not in redact(form.format(secret), environ={})

    @given(from_alphabet(string.ascii_uppercase + string.digits, 8, 12), from_alphabet(ALPHANUMERIC, 24, 24))
    def test_webhooks_do_not_survive(self, team: str, secret: str) -> None:
        redacted = redact(
            f"post to https://hooks.slack.com/services/T{team}/B{team}/{secret} failed", environ={}
        )
        assert redacted == f"post to https://hooks.slack.com/services/{MASK} failed"

    @given(SECRETS, st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
    def test_a_secret_does_not_survive_at_any_depth_of_a_record(
        self, secret: str, other: dict[str, Any]
    ) -> None:
        record = {"a": [f"<{secret}>", {"b": (secret, 1)}], "c": {"d": {"e": ValueError(secret)}}, **other}
        environ = {"MY_TOKEN": secret}
        assert secret not in repr(redact_values(record, environ))
        assert secret not in repr(redact_mapping(record, environ))


class TestOrdinaryText:
    WORDS = st.sampled_from(
        "checkpoint uploading finished tokens=4096 rank 0 of 8 s3://bucket/run/ep1-ba8-rank0.pt /data/a.pt @ "
        "https://host.example:9000/bucket?list-type=2 key=run/a.pt (rank 3) 3.9 GiB basic training "
        "hf_causal_lm_finetuning_v2 task-distributed-training-run-2 max_tokens: 5 PermissionError: 'x' "
        "design=blue user@host.example tokenizer: t5 1e-4 monkey=1 {run_name}/latest-rank{rank}.pt.symlink "
        "signatures tokenizers-0.2 config= secretary: Ann keyboard: de".split(" ")
    )

    @given(st.lists(WORDS, max_size=12).map(" ".join))
    def test_it_is_not_changed(self, text: str) -> None:
        assert redact(text, environ={"HOME": "/root", "RANK": "0", "AWS_REGION": "us-east-1"}) == text

    @given(st.recursive(
        st.none() | st.booleans() | st.integers() | WORDS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: {"size": value}))  # fmt: skip
    def test_a_record_without_secrets_is_not_changed(self, record: dict[str, Any]) -> None:
        assert redact_values(record, environ={}) == record
        assert redact_mapping(record, environ={}) == record

    @given(SECRETS, AROUND, AROUND)
    def test_to_redact_twice_is_to_redact_once(self, secret: str, before: str, after: str) -> None:
        environ = {"MY_TOKEN": secret}
        once = redact(f"{before} token={secret} s3://u:{secret}@h/k {after}", environ)
        assert redact(once, environ) == once

    def test_short_values_and_paths_of_secret_variables_are_ordinary_words(self) -> None:
        environ = {"X_TOKEN": "main", "AWS_WEB_IDENTITY_TOKEN_FILE": "/etc/passwd", "PWD": "/gone/away"}
        text = "main branch in /gone/away reads /etc/passwd"
        assert redact(text, environ=environ) == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("AWS_SECRET_ACCESS_KEY", True), ("AWS_ACCESS_KEY_ID", True), ("AWS_SESSION_TOKEN", True),
        ("WANDB_API_KEY", True), ("apiKey", True), ("hfToken", True), ("MLFLOW_TRACKING_PASSWORD", True),
        ("SLACK_WEBHOOK", True), ("GOOGLE_APPLICATION_CREDENTIALS", True), ("SENTRY_DSN", True),
        ("RANK", False), ("WORLD_SIZE", False), ("TOKENIZERS_PARALLELISM", False), ("keyboard", False),
        ("AWS_REGION", False), ("KEY_COUNT", False), ("MAX_SEQ_LEN", False), ("bucket", False),
    ],
)  # fmt: skip
def test_names_that_say_that_their_value_is_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_a_mapping_loses_its_secret_entries_at_any_depth() -> None:
    values = {"bucket": "b", "aws_secret_access_key": "x", "client": [{"session_token": "y", "region": "z"}]}
    assert redact_mapping(values, environ={}) == {"bucket": "b", "client": [{"region": "z"}]}
    assert redact_values(values, environ={}) == values


def test_the_environment_is_looked_at_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATE_TOKEN", "came-after-the-import")
    assert redact("came-after-the-import") == MASK
