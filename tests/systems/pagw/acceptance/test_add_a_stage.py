"""The page `add_a_stage.md`: its files add a stage to a copy of the gateway, and a request passes it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs import pages
from tests.docs.reader import FILE_OF_BLOCK, Reader

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs/systems/pagw/add_a_stage.md"
# Runs in its own process, because this one has the gateway as it is.
SCRIPT = """
import asyncio
import json
from pagw.model.load_profile import STAGES_PER_REQUEST
from pagw.system import SYSTEM
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario

async def scenario(pipeline: Pipeline) -> None:
    pagw_id = await pipeline.submit()
    await pipeline.settle()
    component = SYSTEM.get_component("paseligibilitychecker")
    print(json.dumps({
        "steps": pipeline.rows(
            "SELECT service_name, event_subtype FROM pagw.audit_log"
            " WHERE pagw_id = %s AND event_type = 'STATUS' ORDER BY id", pagw_id),
        "status": (await pipeline.request(pagw_id)).status,
        "queues": [each.name for each in SYSTEM.queues],
        "receives": component.consumers[0].patterns.receive.id,
        "reads": [each.id for each in component.reads],
        "stages": STAGES_PER_REQUEST,
    }))

asyncio.run(run_scenario(scenario))
"""


def test_three_files_add_a_stage_that_requests_pass(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "systems/pagw", tmp_path / "pagw")
    files = follow_page(tmp_path / "pagw")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(files) == 3
    assert seen["steps"][1:4] == [
        ["pasrequestenricher", "ENRICHED"],
        ["paseligibilitychecker", "ELIGIBILITY_CHECKED"],
        ["pasattachmenthandler", "ATTACHMENTS_PROCESSED"],
    ]
    assert seen["status"] == "COMPLETED"
    assert seen["queues"][1] == "pagw-eligibility-checker-queue"
    assert (seen["receives"], seen["stages"]) == ("Q10R", 8.2)
    assert "O6" in seen["reads"]


def follow_page(folder: Path) -> list[str]:
    """Write the files of the page into the folder and return their names."""
    reader, names = Reader(folder), []
    for block in pages.parse_blocks(PAGE):
        if named := FILE_OF_BLOCK.fullmatch(block.note):
            reader.write(named[1], block)
            names.append(named[1])
    return names
