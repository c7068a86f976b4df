"""Processing of requests: intake, stages, payers' callbacks, webhooks, polling, sweeper and schedules."""
