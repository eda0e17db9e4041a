"""The OpenAPI 3.1 document, assembled from the table of endpoints and the types of the messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

import keyveil
from keyveil.collector.campaigns.messages import ProblemDocument
from keyveil.collector.problems import CATALOGUE, CONTENT_TYPE

if TYPE_CHECKING:
    from keyveil.collector.http.endpoints import Endpoint

JSON = "application/json"
_PARAMETERS: dict[str, dict[str, Any]] = {
    "campaign": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "series": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "annotation": {"type": "integer", "minimum": 1, "maximum": 9999999999999999},
    "round": {"type": "integer", "minimum": 1, "maximum": 65535},
    "token": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
    "key": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
}
# What may be wrong with any request that needs a token, and with any request at all.
_TOKEN_PROBLEMS = ("no-token", "unknown-token", "forbidden", "other-campaign", "rate-limited")
_ALWAYS = ("bad-request", "store-unavailable", "wrong-method")


def document(
    endpoints: Sequence[Endpoint],
    title: str = "keyveil collector",
    description: str = "Takes noised reports, counts each once, and publishes what they say together.",
) -> dict[str, Any]:
    """The whole document.

    >>> from keyveil.collector.http.endpoints import ENDPOINTS
    >>> "/v1/campaigns" in document(ENDPOINTS)["paths"]
    True
    """
    types = [ProblemDocument]
    for endpoint in endpoints:
        types += [
            kind for kind in (*endpoint.takes.values(), *endpoint.answers.values()) if _is_message(kind)
        ]
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": keyveil.__version__,
            "description": description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]}
            for name in re.findall(r"{(\w+)}", endpoint.path)
        ]
        + [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in endpoint.query.items()
        ],
        "responses": _responses(endpoint),
    }
    if endpoint.takes:
        said["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": _schema(kind, taken)} for kind, taken in endpoint.takes.items()},
        }
    if endpoint.roles is None:
        said["security"] = []
    else:
        said["security"] = [{"token": []}]
        said["x-roles"] = sorted(role.value for role in endpoint.roles)
        said["x-scope"] = endpoint.scope.name.lower()
    return said


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    if endpoint.answers:
        answer["content"] = {
            kind: {"schema": _schema(kind, given)} for kind, given in endpoint.answers.items()
        }
    said: dict[str, Any] = {str(endpoint.status): answer}
    if endpoint.status == 201:
        said["200"] = answer
    if endpoint.name == "readyz":
        said["503"] = answer
    codes: dict[int, list[str]] = {}
    for code in (*endpoint.problems, *(_TOKEN_PROBLEMS if endpoint.roles is not None else ()), *_ALWAYS):
        if code not in codes.setdefault(CATALOGUE[code].status, []):
            codes[CATALOGUE[code].status].append(code)
    for status, names in codes.items():
        problem = {CONTENT_TYPE: {"schema": _schema(JSON, ProblemDocument)}}
        words = " ".join(f"`{name}`: {CATALOGUE[name].title}." for name in names)
        kept = said.get(str(status), {"description": "", "content": {}})
        said[str(status)] = {
            "description": f"{kept['description']} {words}".strip(),
            "content": {**kept["content"], **problem},
        }
    return said


def _schema(kind: str, message: Any) -> dict[str, Any]:
    if message is None:
        return (
            {}
            if kind == JSON
            else {"type": "string", "format": "binary"}
            if "text" not in kind
            else {"type": "string"}
        )
    if not _is_message(message):
        return {"type": "object"}
    return {"$ref": f"#/components/schemas/{message.__name__}"}


def _is_message(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
