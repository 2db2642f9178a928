"""
Bodies in Kubernetes' protobuf encoding, as far as kubectl sends them.

kubectl's typed clients (`auth`, `create`, `drain`) send protobuf and read JSON. Types are written as text:
`Name number field spec; …`, specs as in `schema.py` (`s`, `b`, `i`, `Name`, `[t]`, `{t}`) and `y` bytes,
`x` int-or-string, `M` a time with fractions, `-` not needed; `*` behind a spec keeps an explicit zero.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.status import bad_request, unsupported_media

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_TEXT = """
ObjectMeta 1 name s; 2 generateName s; 3 namespace s; 5 uid s; 6 resourceVersion s; 7 generation i; 8
  creationTimestamp -; 11 labels {s}; 12 annotations {s}; 14 finalizers [s]
ConfigMap 1 metadata ObjectMeta; 2 data {s}; 3 binaryData {y}; 4 immutable b
Secret 1 metadata ObjectMeta; 2 data {y}; 3 type s; 4 stringData {s}; 5 immutable b
Namespace 1 metadata ObjectMeta; 2 spec -; 3 status -
ServiceAccount 1 metadata ObjectMeta
LeaseSpec 1 holderIdentity s*; 2 leaseDurationSeconds i*; 3 acquireTime M; 4 renewTime M; 5 leaseTransitions
  i*
Lease 1 metadata ObjectMeta; 2 spec LeaseSpec
ResourceAttributes 1 namespace s; 2 verb s; 3 group s; 4 version s; 5 resource s; 6 subresource s; 7 name s;
  8 fieldSelector -; 9 labelSelector -
NonResourceAttributes 1 path s; 2 verb s
AccessSpec 1 resourceAttributes ResourceAttributes; 2 nonResourceAttributes NonResourceAttributes
SelfSubjectAccessReview 1 metadata ObjectMeta; 2 spec AccessSpec; 3 status -
RulesSpec 1 namespace s
SelfSubjectRulesReview 1 metadata ObjectMeta; 2 spec RulesSpec; 3 status -
SelfSubjectReview 1 metadata ObjectMeta; 2 status -
Preconditions 1 uid s; 2 resourceVersion s
DeleteOptions 1 gracePeriodSeconds i*; 2 preconditions Preconditions; 3 orphanDependents b; 4
  propagationPolicy s; 5 dryRun [s]
Eviction 1 metadata ObjectMeta; 2 deleteOptions DeleteOptions
LabelSelector 1 matchLabels {s}
ContainerPort 1 name s; 2 hostPort i; 3 containerPort i; 4 protocol s; 5 hostIP s
EnvVar 1 name s; 2 value s
Container 1 name s; 2 image s; 3 command [s]; 4 args [s]; 5 workingDir s; 6 ports [ContainerPort]; 7 env
  [EnvVar]; 8 resources -; 13 terminationMessagePath s; 14 imagePullPolicy s; 16 stdin b; 17 stdinOnce b; 18
  tty b; 20 terminationMessagePolicy s
PodSpec 2 containers [Container]; 3 restartPolicy s; 4 terminationGracePeriodSeconds i; 6 dnsPolicy s; 7
  nodeSelector {s}; 8 serviceAccountName s; 9 serviceAccount s; 10 nodeName s; 11 hostNetwork b; 12 hostPID
  b; 13 hostIPC b; 14 securityContext -; 16 hostname s; 17 subdomain s; 19 schedulerName s; 24
  priorityClassName s
PodTemplateSpec 1 metadata ObjectMeta; 2 spec PodSpec
DeploymentSpec 1 replicas i*; 2 selector LabelSelector; 3 template PodTemplateSpec; 4 strategy -; 5
  minReadySeconds i; 7 paused b
Deployment 1 metadata ObjectMeta; 2 spec DeploymentSpec; 3 status -
JobSpec 1 parallelism i; 2 completions i; 4 selector LabelSelector; 6 template PodTemplateSpec; 7
  backoffLimit i
Job 1 metadata ObjectMeta; 2 spec JobSpec; 3 status -
BudgetSpec 1 minAvailable x; 2 selector LabelSelector; 3 maxUnavailable x
PodDisruptionBudget 1 metadata ObjectMeta; 2 spec BudgetSpec; 3 status -
PolicyRule 1 verbs [s]; 2 apiGroups [s]; 3 resources [s]; 4 resourceNames [s]; 5 nonResourceURLs [s]
Role 1 metadata ObjectMeta; 2 rules [PolicyRule]
ClusterRole 1 metadata ObjectMeta; 2 rules [PolicyRule]
Subject 1 kind s; 2 apiGroup s; 3 name s; 4 namespace s
RoleRef 1 apiGroup s; 2 kind s; 3 name s
RoleBinding 1 metadata ObjectMeta; 2 subjects [Subject]; 3 roleRef RoleRef
ClusterRoleBinding 1 metadata ObjectMeta; 2 subjects [Subject]; 3 roleRef RoleRef
"""


def _read_types() -> dict[str, dict[int, tuple[str, str]]]:
    types: dict[str, dict[int, tuple[str, str]]] = {}
    for line in _TEXT.replace("\n  ", " ").strip().splitlines():
        name, _, rest = line.partition(" ")
        fields = (part.split() for part in rest.split(";"))
        types[name] = {int(number): (field, spec) for number, field, spec in fields}
    return types


_TYPES = _read_types()


def decode_body(body: bytes) -> Obj:
    """Return the object of a protobuf body; a kind that is not known here is a 415."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_members(body[len(_MAGIC) :]))
    meta = {number: _text(value) for number, value in _members(envelope.get(1, b""))}
    api_version, kind = meta.get(1, ""), meta.get(2, "")
    if kind not in _TYPES:
        raise unsupported_media(("application/json", "application/yaml"))
    return {"apiVersion": api_version, "kind": kind, **_message(kind, envelope.get(2, b""))}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _members(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: number, and an integer or bytes."""
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                value, at = _varint(data, at)
                yield number, value
                continue
            if wire == _BYTES:
                size, at = _varint(data, at)
            elif wire in (_FIXED64, _FIXED32):
                size = 8 if wire == _FIXED64 else 4
            else:
                raise bad_request(f"proto: illegal wireType {wire}")
            if at + size > len(data):
                raise bad_request("unexpected EOF")
            yield number, data[at : at + size]
            at += size
    except IndexError:
        raise bad_request("unexpected EOF") from None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _message(name: str, data: bytes) -> Obj:
    out: Obj = {}
    for number, value in _members(data):
        if number not in _TYPES[name]:
            if not value:
                continue
            # NB: better refused than silently lost.
            raise unsupported_media(("application/json", "application/yaml"))
        field, spec = _TYPES[name][number]
        if spec == "-":
            continue
        if spec.startswith("["):
            out.setdefault(field, []).append(_value(spec[1:-1], value))
        elif spec.startswith("{"):
            pair = dict(_members(value))
            out.setdefault(field, {})[_text(pair.get(1, b""))] = _value(spec[1:-1], pair.get(2, b""))
        elif value or spec.endswith("*"):
            # NB: Go writes empty fields out too, unless they are pointers.
            out[field] = _value(spec.rstrip("*"), value)
    return out


def _value(spec: str, value: Any) -> Any:
    if spec == "s":
        return _text(value)
    if spec == "b":
        return bool(value)
    if spec == "i":
        return value - (1 << 64) if value >= 1 << 63 else value
    if spec == "y":
        return base64.b64encode(value).decode()
    if spec == "x":
        parts = dict(_members(value))
        return _text(parts.get(3, b"")) if parts.get(1) else parts.get(2, 0)
    if spec == "M":
        parts = dict(_members(value))
        moment = datetime.fromtimestamp(parts.get(1, 0), UTC).replace(microsecond=parts.get(2, 0) // 1000)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return _message(spec, value)
