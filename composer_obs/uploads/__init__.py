"""Did every artifact of a run arrive, whole?

`ledger` keeps what was announced, `content` and `checksums` what the files held, `stores` ask
where they went, `lookup` asks cheaply, `verdicts` compares, `checkpoints` looks at shards and
pointers, and `audit` puts it together. `auditor` is the only module that knows Composer's Trainer;
`taps` and `uploaders` beside it hook what Composer uploads with.
"""
