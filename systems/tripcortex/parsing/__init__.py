"""Policy documents taken apart: PDF and Markdown here, Bedrock Data Automation in production."""
