"""Handlers: each file takes its operations through validate, plan and storage."""
