"""Handlers: each module takes its operations through validate, plan and storage."""
