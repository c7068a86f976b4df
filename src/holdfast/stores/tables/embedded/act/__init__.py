"""The operations carried out: each file takes an operation through validate, plan and storage, in sight."""
