"""Services of a production gateway on this machine, and the variables that name them.

DynamoDB, SQS, S3, KMS and Secrets Manager are moto's server, an independent implementation. PostgreSQL and
Redis are real, over TCP; their passwords are only in Secrets Manager. `Services` inspects all of them with
its own clients.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from redis import Redis

from holdfast_demo.pagw.sandbox.client import SECRET
from holdfast_demo.pagw.sandbox.payer import CALLBACK_SECRET
from tests.contract.moto import moto_endpoint
from tests.contract.redis_server import RedisServer, run_redis
from tests.contract.sql.secured_server import USER, SecuredServer, start_secured_server
from tests.systems.pagw.acceptance.gateway import CLIENT_SECRET, TENANTS

ENVIRONMENT = "dev"
REGION = "us-east-2"
DATABASE = "pagwdb"
DATABASE_SECRET = f"pagw/aurora/{ENVIRONMENT}"
CACHE_SECRET = f"pagw/elasticache/{ENVIRONMENT}"
KEY_ALIAS = f"alias/pagw-s3-{ENVIRONMENT}"
DATABASE_PASSWORD = "the-word-of-the-database"
CACHE_PASSWORD = "the-word-of-the-cache"
SECRETS = {
    DATABASE_SECRET: json.dumps({"username": USER, "password": DATABASE_PASSWORD}),
    CACHE_SECRET: CACHE_PASSWORD,
    "pagw/lookup-key": "k" * 32,
    "pagw/payers/sandbox": json.dumps({"client_id": "pagw", "client_secret": CLIENT_SECRET}),
    "pagw/callbacks/sandbox": CALLBACK_SECRET,
    **{f"pagw/webhooks/{tenant}": SECRET for tenant in TENANTS},
}


@dataclass(frozen=True)
class Services:
    """The running services (`address` is moto's), with independent clients of each."""

    address: str
    sql: SecuredServer
    redis: RedisServer

    @property
    def variables(self) -> dict[str, str]:
        """Variables that an operator sets to run the gateway on services. None of them is a secret."""
        database = self.sql.url(DATABASE)
        return {
            "AWS_DEFAULT_REGION": REGION,
            "HOLDFAST_ENVIRONMENT": ENVIRONMENT,
            "HOLDFAST_TABLES": f"dynamodb+http://{self.address}",
            "HOLDFAST_QUEUES": f"sqs+http://{self.address}",
            "HOLDFAST_OBJECTS": f"s3+http://{self.address}",
            "HOLDFAST_SECRETS": f"secretsmanager+http://{self.address}",
            "HOLDFAST_KEYS": f"kms+http://{self.address}/{KEY_ALIAS}",
            "HOLDFAST_SQL": database,
            "HOLDFAST_SQL_READER": database,
            "HOLDFAST_SQL_SECRET": DATABASE_SECRET,
            "HOLDFAST_CACHE": self.redis.address,
            "HOLDFAST_CACHE_SECRET": CACHE_SECRET,
            "HOLDFAST_ALLOWED_HOSTS": "pagw.example.com",
        }

    @property
    def owner_url(self) -> str:
        """URL of the database for its owner, on this machine."""
        running = self.sql.server.ensure_running()
        return f"postgresql://postgres@/{DATABASE}?host={running.socket_folder}&port={running.port}"

    def client(self, service: str) -> Any:
        """Return a boto3 client of an AWS service at moto."""
        return _client(service, self.address)

    def cache(self) -> Redis:
        """Return a client of Redis."""
        return Redis(port=self.redis.port, password=CACHE_PASSWORD, decode_responses=True)

    def _prepare(self) -> None:
        """Create what exists before a gateway starts: the database, a key, the secrets."""
        self.sql.create_database(DATABASE)
        keys, secrets = self.client("kms"), self.client("secretsmanager")
        keys.create_alias(AliasName=KEY_ALIAS, TargetKeyId=keys.create_key()["KeyMetadata"]["KeyId"])
        for name, value in SECRETS.items():
            secrets.create_secret(Name=name, SecretString=value)

    def _remove(self) -> None:
        """Remove what `_prepare` created at moto, whose data the next services of this process share."""
        secrets = self.client("secretsmanager")
        for name in SECRETS:
            secrets.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)
        self.client("kms").delete_alias(AliasName=KEY_ALIAS)


@contextmanager
def start_services(folder: Path) -> Iterator[Services]:
    """Start all services. `folder` holds the certificate of the database."""
    with moto_endpoint() as address, run_redis("--requirepass", CACHE_PASSWORD) as redis:
        sql = start_secured_server(folder, DATABASE_PASSWORD)
        try:
            made = Services(address, sql, redis)
            made._prepare()
            yield made
            made._remove()
        finally:
            sql.stop()


@functools.cache
def _client(service: str, address: str) -> Any:
    # A request that is repeated after a slow answer would find its own alias or secret.
    once = Config(read_timeout=300, retries={"total_max_attempts": 1})
    return boto3.client(service, endpoint_url=f"http://{address}", region_name=REGION, config=once)
