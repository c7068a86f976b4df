"""What every queues engine promises."""
