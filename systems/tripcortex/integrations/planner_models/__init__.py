"""Planners with a language model: `model_planner` works with any `Reasoner`; `nova` is Amazon Nova 2 Lite on
Bedrock.
"""
