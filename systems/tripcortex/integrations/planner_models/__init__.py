"""Planners with a language model: `model_planner` for any `Reasoner`, `nova` for Nova 2 Lite on Bedrock."""
