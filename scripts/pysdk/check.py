"""Runs Microsoft's Python clients, as Debian packages them, against the storage account whose connection
string is the only argument: azure-storage-queue, azure-storage-blob, and the older azure-cosmosdb-table. Each case asserts what
a user of the client sees. After all cases have run, the exit code is 1 if one has failed."""

import gzip
import hashlib
import json
import sys
import time
import traceback
from datetime import datetime, timezone

from azure.common import AzureException
from azure.core.exceptions import HttpResponseError
from azure.cosmosdb.table.models import EdmType, EntityProperty
from azure.cosmosdb.table.tablebatch import TableBatch
from azure.cosmosdb.table.tableservice import TableService
from azure.core import MatchConditions
from azure.storage.blob import BlobPrefix, BlobServiceClient, ContentSettings
from azure.storage.queue import QueueServiceClient

connection = sys.argv[1]
unique = "%x" % time.time_ns()
def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


tables = TableService(connection_string=connection)
tables.retry = lambda context: None  # otherwise it retries a refused batch for 50 seconds
queues = QueueServiceClient.from_connection_string(connection)
blobs = BlobServiceClient.from_connection_string(connection, retry_total=0, max_single_get_size=1000, max_chunk_get_size=700)
key = {"PartitionKey": "it's", "RowKey": "ü+&=% 😀"}


def failure(call, *args, **kwargs):
    """The status and code of the error that a call raises."""
    try:
        call(*args, **kwargs)
    except (AzureException, HttpResponseError) as e:
        return e.status_code, getattr(e, "error_code", None) or e.code
    return "no error"


def new_table(name):
    name += unique
    assert tables.create_table(name)
    assert not tables.create_table(name)  # the client ignores that the table exists
    return name


def custom(entity):
    """The entity's properties but keys, Timestamp and ETag."""
    return {name: value for name, value in entity.items() if name not in ("PartitionKey", "RowKey", "Timestamp", "etag")}


def table_types():
    table = new_table("types")
    when = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    guid = EntityProperty(EdmType.GUID, "0f8fad5b-d9cb-469f-a165-70867728950e")
    values = {"text": 'a "b" <&> ü日本😀\r\n', "long": 9007199254740993, "half": 2.5, "yes": True, "no": False, "when": when}
    tables.insert_entity(table, {**key, **values, "guid": guid, "bytes": EntityProperty(EdmType.BINARY, b"\0\1\xff"), "none": None})
    got = tables.get_entity(table, key["PartitionKey"], key["RowKey"])
    assert got.pop("guid").value == guid.value
    assert got.pop("bytes").value == b"\0\1\xff"
    same(custom(got), values)
    # The answer contains a selected property that the row lacks, as None.
    assert custom(tables.get_entity(table, key["PartitionKey"], key["RowKey"], select="half,missing")) == {"half": 2.5, "missing": None}


def table_writes():
    table = new_table("writes")
    old = tables.insert_entity(table, {**key, "a": 1})
    get = lambda: custom(tables.get_entity(table, key["PartitionKey"], key["RowKey"]))
    same(failure(tables.insert_entity, table, key), (409, "EntityAlreadyExists"))
    tables.merge_entity(table, {**key, "b": 2})
    same(get(), {"a": 1, "b": 2})
    same(failure(tables.update_entity, table, {**key, "c": 3}, if_match=old), (412, "UpdateConditionNotSatisfied"))
    tables.insert_or_replace_entity(table, {**key, "d": 4})
    tables.insert_or_merge_entity(table, {**key, "e": 5})
    same(get(), {"d": 4, "e": 5})
    tables.delete_entity(table, key["PartitionKey"], key["RowKey"])
    same(failure(tables.get_entity, table, key["PartitionKey"], key["RowKey"]), (404, "ResourceNotFound"))


def table_batches_and_queries():
    table = new_table("batches")
    tables.commit_batch(table, TableBatch())  # an empty batch
    batch = TableBatch()
    for i in range(100):
        batch.insert_entity({"PartitionKey": "p", "RowKey": "%03d" % i, "n": i})
    tables.commit_batch(table, batch)
    clash = TableBatch()
    clash.delete_entity("p", "000")
    clash.insert_entity({"PartitionKey": "p", "RowKey": "001"})
    same(failure(tables.commit_batch, table, clash), (409, "EntityAlreadyExists"))
    alone = TableBatch()
    alone.insert_entity({"PartitionKey": "p", "RowKey": "001"})
    same(failure(tables.commit_batch, table, alone), (409, "EntityAlreadyExists"))
    assert [row["n"] for row in tables.query_entities(table, filter="PartitionKey eq 'p' and n ge 95L", select="n")] == [95, 96, 97, 98, 99]
    page = tables.query_entities(table, num_results=40)
    rest = tables.query_entities(table, marker=page.next_marker)
    assert (len(page.items), len(rest.items), rest.next_marker) == (40, 60, {})


def table_list():
    names = [new_table("list" + c) for c in "abc"]
    assert set(names) <= {table.name for table in tables.list_tables()}
    page = tables.list_tables(num_results=1)
    assert page.next_marker
    assert len(tables.list_tables(num_results=1, marker=page.next_marker).items) == 1
    assert tables.delete_table(names[0])
    assert not tables.delete_table(names[0])


def queue_metadata():
    name = "metadata-" + unique
    queue = queues.create_queue(name, metadata={"colorOfIt": "red", "Size": "9"})
    same(queue.get_queue_properties().metadata, {"colorofit": "red", "size": "9"})
    queue.set_queue_metadata({"other": "x y"})
    listed = list(queues.list_queues(name_starts_with=name, include_metadata=True))
    same([(q.name, q.metadata) for q in listed], [(name, {"other": "x y"})])
    same(failure(queues.create_queue, name), (409, "QueueAlreadyExists"))
    same(failure(queue.set_queue_metadata, {"a-b": "x"}), (400, "InvalidMetadata"))
    queue.delete_queue()
    same(failure(queue.get_queue_properties), (404, "QueueNotFound"))


def queue_messages():
    queue = queues.create_queue("messages-" + unique)
    for text in ["", "plain", "<a href=\"it's\">&amp;</a>", "a\ttab", "two\nlines\n", "ü日本😀", "&#39; ]]>"]:
        queue.send_message(text)
        same(queue.peek_messages()[0].content or "", text)
        (got,) = queue.receive_messages(visibility_timeout=30)
        same((got.content or "", got.dequeue_count), (text, 1))
        old = got.pop_receipt
        updated = queue.update_message(got, visibility_timeout=30, content="new " + text)
        same(failure(queue.delete_message, got.id, old), (400, "PopReceiptMismatch"))
        queue.delete_message(updated)
    for _ in range(3):
        queue.send_message("x")
    assert queue.get_queue_properties().approximate_message_count == 3
    queue.clear_messages()
    assert list(queue.receive_messages()) == []
    same(failure(queue.send_message, "x" * 65537), (413, "RequestBodyTooLarge"))
    same(failure(queue.send_message, "\x01"), (400, "InvalidXmlDocument"))


def blobs_read_and_walked():
    container = blobs.create_container("pyblobs-" + unique, metadata={"of": "tests"})
    assert container.exists()
    same(failure(blobs.create_container, container.container_name), (409, "ContainerAlreadyExists"))
    content = b"0123456789" * 500
    settings = ContentSettings(content_type="text/plain", content_encoding="identity", cache_control="no-store")
    blob = container.upload_blob("a/b c/ü.txt", content, metadata={"color": "red"}, content_settings=settings, validate_content=True)
    same(failure(container.upload_blob, "a/b c/ü.txt", b"y"), (409, "BlobAlreadyExists"))
    got = blob.get_blob_properties()
    same((got.size, got.metadata, got.content_settings.content_type, got.content_settings.cache_control, len(got.content_settings.content_md5)), (5000, {"color": "red"}, "text/plain", "no-store", 16))
    same(blob.download_blob().readall(), content)
    same(blob.download_blob(validate_content=True).readall(), content)
    same(blob.download_blob(offset=5, length=3).readall(), b"567")
    same(failure(blob.download_blob, etag='"0x1"', match_condition=MatchConditions.IfNotModified), (412, "ConditionNotMet"))
    container.upload_blob("a/2", b"x")
    same([(b.name, b.metadata, b.size, b.etag) for b in container.list_blobs(name_starts_with="a/b", include=["metadata"])], [("a/b c/ü.txt", {"color": "red"}, 5000, got.etag.strip('"'))])
    walked = []

    def walk(prefix):
        for item in container.walk_blobs(prefix):
            walked.append(item.name)
            if isinstance(item, BlobPrefix):
                walk(item.name)

    walk("")
    same(sorted(walked), ["a/", "a/2", "a/b c/", "a/b c/ü.txt"])
    assert container.container_name in [c.name for c in blobs.list_containers(name_starts_with="pyblobs-")]
    lease = blob.acquire_lease(lease_duration=15)
    same(failure(blob.set_blob_metadata, {"a": "b"}), (412, "LeaseIdMissing"))
    blob.set_blob_metadata({"a": "b"}, lease=lease)
    lease.renew()
    lease.release()
    same(failure(blob.set_http_headers, settings), (501, "NotImplemented"))
    same(failure(blob.create_snapshot), (501, "NotImplemented"))
    blob.delete_blob()
    assert not blob.exists()
    container.delete_container()
    assert not container.exists()


def an_export_is_walked_and_read():
    container = blobs.get_container_client("exports")
    same([item.name for item in container.walk_blobs()], ["of/"])
    found = [b for page in container.list_blobs(name_starts_with="of/exported/", results_per_page=1).by_page() for b in page]
    data = [b for b in found if ".jsonl.gz" in b.name]
    assert 0 < len(data) < len(found), [b.name for b in found]
    rows = []
    for b in data:
        content = container.download_blob(b.name, validate_content=True).readall()
        same((len(content), hashlib.md5(content).digest()), (b.size, bytes(b.content_settings.content_md5)))
        rows += [json.loads(line) for line in gzip.decompress(content).splitlines()]
    same(sorted((row["n"], row["RowKey"]) for row in rows), [(n, f"r{n}") for n in range(1, 3001)])


failed = 0
for case in [table_types, table_writes, table_batches_and_queries, table_list, queue_metadata, queue_messages, blobs_read_and_walked, an_export_is_walked_and_read]:
    try:
        case()
        print("ok  ", case.__name__)
    except Exception:
        failed += 1
        print("FAIL", case.__name__)
        traceback.print_exc()
sys.exit(1 if failed else 0)
