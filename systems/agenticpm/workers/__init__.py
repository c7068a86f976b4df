"""The workers of AgenticPM: the loop, the executor of held actions, the digest and their schedules."""
