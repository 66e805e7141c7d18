"""Did every artifact of a run arrive, whole?

The core, which knows neither Composer nor torch: `ledger` keeps what was announced, `content` and
`checksums` what the files held, `stores` answer for where they went, `lookup` asks them cheaply,
`verdicts` compares, `places` and `judging` tell who is to blame, `checkpoints` looks at shards and
pointers, and `audit` puts it together. `recorder` and `verifier` do so while a run goes on.

The adapters: `auditor` is the LoggerDestination, `watch` finds the ways out of a Trainer,
`destinations` names them, and `taps` and `uploaders` learn how each upload ended.
"""
