"""Record the requests that PynamoDB sends for the program in docs/guides/coming_from_pynamodb.md.

PynamoDB is not among the tools of this repository. To record again, run this by hand in an environment that
has Holdfast with the extra `aws`, and PynamoDB: `python -m tests.docs.record_pynamodb`.
"""

from __future__ import annotations

import json
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from holdfast.boto3 import in_process, interception
from tests.docs import pages

PAGE: Final = pages.DOCS / "guides" / "coming_from_pynamodb.md"
RECORDING: Final = Path(__file__).with_name("pynamodb_requests.json")
NOTE: Final = "no-run: the PynamoDB program"


def read_program() -> str:
    """Return the PynamoDB program of the page."""
    return "\n".join(block.text for block in pages.parse_blocks(PAGE) if block.note == NOTE)


def hash_program(program: str) -> str:
    return sha256(program.encode()).hexdigest()


def main() -> None:
    """Run the program of the page in process, and write down what it sent."""
    sent: list[dict[str, Any]] = []
    respond = interception._respond

    def record(tables: Any, request: Any) -> Any:
        target = request.headers["X-Amz-Target"]
        sent.append({"target": target.decode(), "body": json.loads(request.body)})
        return respond(tables, request)

    program = read_program()
    with in_process(), patch.object(interception, "_respond", record):
        exec(compile(program, str(PAGE), "exec"), {"__name__": "pynamodb_program"})
    recording = {"program": hash_program(program), "pynamodb": version("pynamodb"), "requests": sent}
    RECORDING.write_text(json.dumps(recording, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
