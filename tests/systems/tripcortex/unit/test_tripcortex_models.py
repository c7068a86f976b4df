"""Tests that the settings choose the AI models of every part that embeds or plans; Bedrock is stubbed."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from holdfast import Stores
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import ExternalServiceFailed, SettingsError
from holdfast.stores.tables.embedded import open_tables
from holdfast.web.demo_env import patch_environ
from holdfast_demo.tripcortex.sandbox import PORTAL_KEY
from tests.cases import all_cases
from tripcortex.api.commands import policies_upload
from tripcortex.api.mcp_tools import policy_says
from tripcortex.api.policy_commands import policies_ask
from tripcortex.domain.planner.ports import PlanRequest, TravellerProfile, TripPlan
from tripcortex.integrations import ai_models
from tripcortex.integrations.planner_models.model_planner import TOOL_NAME
from tripcortex.integrations.planner_models.nova import MODEL_ID
from tripcortex.policies.embedding import LOCAL, NOVA
from tripcortex.settings import TripCortexSettings, get_variable_name
from tripcortex.system import SYSTEM
from tripcortex.workers.dependencies import open_dependencies
from tripcortex.workers.policy_ingestion import ingest_waiting_policies

NOWHERE = "bedrock+http://127.0.0.1:9"
ON_BEDROCK = {
    get_variable_name("planner"): "bedrock",
    get_variable_name("embedding"): "bedrock",
    get_variable_name("bedrock"): NOWHERE,
}
PLAN = {
    "outcome": "plan",
    "confidence": 0.9,
    "destination": "Chicago",
    "departure_date": "2026-03-17",
    "return_date": "2026-03-19",
}


@pytest.fixture
def bedrock_stub() -> Iterator[Stubber]:
    """Replace the service behind the SDK's client, which validates requests and responses."""
    with Stubber(ai_models._open_runtime(NOWHERE)) as stub:
        yield stub


async def make_plan(settings: TripCortexSettings) -> Any:
    """Plan a trip to Chicago with the planner of these settings."""
    asked = PlanRequest(
        "Chicago next Tuesday, back Thursday",
        TravellerProfile("emp-42", "America/New_York", "BOS"),
        datetime(2026, 3, 10, 14, tzinfo=UTC),
    )
    return await ai_models.open_planner(settings).plan(asked)


async def test_defaults_to_local_models() -> None:
    settings = TripCortexSettings.load({})
    assert ai_models.open_embedding(settings).model_id == LOCAL
    assert ai_models.open_planner(settings).model_id == "sentences"
    assert isinstance(await make_plan(settings), TripPlan)


def test_planner_and_embedding_choose_bedrock_separately() -> None:
    embedding = TripCortexSettings(embedding="bedrock", bedrock=NOWHERE)
    assert ai_models.open_embedding(embedding).model_id == NOVA
    assert ai_models.open_planner(embedding).model_id == "sentences"
    planner = TripCortexSettings(planner="bedrock", bedrock=NOWHERE)
    assert ai_models.open_embedding(planner).model_id == LOCAL
    assert ai_models.open_planner(planner).model_id == MODEL_ID


async def test_nova_plans_over_the_converse_api(bedrock_stub: Stubber) -> None:
    call = {"toolUse": {"toolUseId": "tooluse_1", "name": TOOL_NAME, "input": PLAN}}
    answer = {
        "output": {"message": {"role": "assistant", "content": [call]}},
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1200, "outputTokens": 200, "totalTokens": 1400},
        "metrics": {"latencyMs": 640},
    }
    bedrock_stub.add_response("converse", answer)
    settings = TripCortexSettings.load(ON_BEDROCK)
    found = await make_plan(settings)
    assert isinstance(found, TripPlan) and found.parameters.departure_date.isoformat() == "2026-03-17"
    bedrock_stub.add_client_error("converse", "ThrottlingException", "Too many requests.", 429)
    with pytest.raises(ExternalServiceFailed):
        await make_plan(settings)


def test_nova_embeds_a_question(bedrock_stub: Stubber) -> None:
    said = json.dumps({"embeddings": [{"embeddingType": "TEXT", "embedding": [1.0] * 1024}]}).encode()
    body = StreamingBody(io.BytesIO(said), len(said))
    bedrock_stub.add_response("invoke_model", {"body": body, "contentType": "application/json"})
    found = ai_models.open_embedding(TripCortexSettings.load(ON_BEDROCK)).embed_question("Which cabin?")
    assert found is not None and found.startswith("[0.03125,")


async def test_worker_dependencies_use_the_configured_models() -> None:
    async def ids(stores: Stores) -> tuple[str, str]:
        async with open_dependencies(stores) as dependencies:
            return dependencies.embedding.model_id, dependencies.planner.model_id

    portal = {
        get_variable_name("portal_url"): "http://127.0.0.1:9",
        "HOLDFAST_SECRETS": "env:",
        "HOLDFAST_SECRET_TRIPCORTEX_PORTAL_KEY": PORTAL_KEY,
    }
    with open_tables(None) as tables:
        stores = Stores(tables, system=SYSTEM, clock=SYSTEM_CLOCK)
        with patch_environ(portal):
            assert await ids(stores) == (LOCAL, "sentences")
        with patch_environ(portal | ON_BEDROCK):
            assert await ids(stores) == (NOVA, MODEL_ID)


Use = Callable[[Stores], Coroutine[Any, Any, Any]]


@pytest.mark.parametrize(
    "use",
    [
        ingest_waiting_policies,
        lambda stores: policies_ask(Path("policy.md"), ["Which cabin?"]),
        lambda stores: policies_upload(stores, Path("policy.md")),
        lambda stores: policy_says(stores, "Which cabin?"),
    ],
)
async def test_bedrock_embedding_without_boto3_is_a_settings_error(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "botocore" else found(name, *more)
    )
    with (
        open_tables(None) as tables,
        patch_environ({**ON_BEDROCK, get_variable_name("bedrock"): "bedrock://"}),
    ):
        stores = Stores(tables, system=SYSTEM, clock=SYSTEM_CLOCK)
        with pytest.raises(SettingsError, match="Bedrock needs boto3"):
            await use(stores)


@all_cases("address", ["", "us-east-1", "https://bedrock.example"])
def test_rejects_an_invalid_bedrock_address(address: str) -> None:
    with pytest.raises(SettingsError, match=get_variable_name("bedrock")):
        TripCortexSettings.load({get_variable_name("bedrock"): address})
