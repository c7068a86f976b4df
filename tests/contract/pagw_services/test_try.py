from __future__ import annotations
import json, time
from pathlib import Path
from typing import Any
from pagw.sample_bundles import SampleAttachment, request_bundle
from tests.acceptance.pagw.gateway import Gateway, fresh
from .services import Services


def test_it(gateway: Gateway, services: Services, log: Path) -> None:
    t = time.time()
    def lap(what): 
        nonlocal t
        print("LAP", what, round(time.time()-t,2)); t=time.time()
    lap("begin")
    b = request_bundle(reference=fresh("R"), attachments=[SampleAttachment(content=b"Seen twice.")])
    hdr={"x-callback-url": f"{gateway.parties.client_url}/callbacks/acme"}
    a = gateway.accepted(b, **hdr); lap("accepted")
    print(gateway.ended(a)); lap("ended")
    d = gateway.claim(request_bundle(reference=fresh("R"), items=["15820"])); lap("denied")
    print(d.status_code, d.text[:300])
    p = gateway.accepted(request_bundle(reference=fresh("R"), items=["70551"]), **hdr)
    print(gateway.ended(p, "acme", "PENDED")); lap("pended")
    gateway.decide(p); print(gateway.ended(p)); lap("called back")
    print(gateway.delivered(p)); lap("delivered")
    print(services.aws("dynamodb").scan(TableName="pagw-idempotency-dev"))
    s3=services.aws("s3")
    for bk in ("crln-pagw-dev-dataz-gbd-phi-useast2","crln-pagw-dev-logz-nogbd-nophi-useast2"):
        for o in s3.list_objects_v2(Bucket=bk)["Contents"]:
            h=s3.head_object(Bucket=bk,Key=o["Key"])
            print(o["Key"], h["ContentType"], h.get("ServerSideEncryption"), h.get("SSEKMSKeyId"), h.get("BucketKeyEnabled"), h.get("VersionId"), h["Metadata"])
        print(s3.get_bucket_lifecycle_configuration(Bucket=bk)["Rules"])
        print(s3.get_bucket_encryption(Bucket=bk)["ServerSideEncryptionConfiguration"])
    c=services.cache()
    for k in sorted(c.keys()): print(k, c.ttl(k), c.get(k)[:120])
    print(log.read_text()[:5000])
    assert 0
