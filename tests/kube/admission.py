"""What the stand-in does with a manifest before it keeps it: defaults, unknown fields, rules of a Job, quota.

Unknown fields are found by the published schemas (kubernetes-validate); texts are those of tests/kube/recordings.
"""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate

from tests.kube.store import KINDS, Object, Refused, Store, invalid

_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def unknown_fields(plural: str, value: Object, version: str) -> list[str]:
    """Paths of fields that the kind does not have; they are taken out of `value`. Raises: Refused (a wrong type)."""
    found: list[str] = []
    while True:
        try:
            kubernetes_validate.validate(value, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            return found
        except kubernetes_validate.ValidationError as error:
            told = re.search(r"Additional properties are not allowed \((.*) (?:was|were) unexpected\)", error.message)
            where = [str(part) for part in error.path]
            if told is None:
                kind = KINDS[plural]
                text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: cannot'
                raise Refused(400, "BadRequest", f"{text} unmarshal: {'.'.join(where)}: {error.message}") from error
            at: Any = value
            for part in error.path:
                at = at[part]
            for name in re.findall(r"'([^']*)'", told[1]):
                at.pop(name, None)
                path = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", ".".join([*where, name]))
                found.append(path)
        else:
            return sorted(found)


def admit_job(job: Object) -> None:
    """Fill in what a server fills in. Raises: Refused (422)."""
    name, spec = job["metadata"].get("name", ""), job["spec"]
    kind, wrong = KINDS["jobs"], list[tuple[str, str]]()
    is_indexed = spec.setdefault("completionMode", "NonIndexed") == "Indexed"
    if not re.fullmatch(_NAME, name):
        wrong.append(("metadata.name", f'Invalid value: "{name}": {_NAME_TEXT}'))
    last = f"{name}-{max(0, int(spec.get('completions') or 1) - 1)}"
    if is_indexed and (not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", last) or len(last) > 63):
        shown = last if len(last) > 63 else f"{name}-0"
        wrong.append(
            ("metadata.name", f'Invalid value: "{name}": will not able to create pod with invalid DNS label: {shown}')
        )  # noqa: E501  fmt: skip
    template = spec["template"]["spec"]
    if template.get("restartPolicy") not in ("Never", "OnFailure"):
        given = template.get("restartPolicy")
        says = f'Unsupported value: "{given}": supported values: "OnFailure", "Never"'
        wrong.append(
            (
                "spec.template.spec.restartPolicy",
                says if given else 'Required value: valid values: "OnFailure", "Never"',
            )
        )  # noqa: E501  fmt: skip
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        wrong.append(("spec.backoffLimitPerIndex", "Required value: when maxFailedIndexes is specified"))
    for number, container in enumerate(template.get("containers", ())):
        for key, amount in (container.get("resources", {}).get("limits") or {}).items():
            if "/" in key and not str(amount).isdigit():
                where = f"spec.template.spec.containers[{number}].resources.limits[{key}]"
                wrong.append((where, f'Invalid value: "{amount}": must be an integer'))
    for number, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules", ())):
        if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
            where = f"spec.podFailurePolicy.rules[{number}].action"
            wrong.append((where, 'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'))
    if wrong:
        raise invalid(kind, name, wrong)
    spec.setdefault("parallelism", 1)
    if "completions" not in spec:
        spec["completions"] = 1
    spec.setdefault("backoffLimit", 2147483647 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    admit_pod(template)


def own_job(job: Object) -> None:
    """Labels and selector, which hold the uid."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    mine = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    labels = {**mine, "controller-uid": uid, "job-name": name}
    job["metadata"].setdefault("labels", {}).update(labels)
    job["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    job["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {}).update(labels)


def admit_pod(spec: Object) -> None:
    """Fill in what a server fills in."""
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        is_latest = ":" not in container["image"].rpartition("/")[2] or container["image"].endswith(":latest")
        container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
        limits = container["resources"].get("limits")
        if limits:
            container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")


def check_quota(store: Store, namespace: str, pod: Object, name: str) -> None:
    """Raises: Refused (403)."""
    asked = requests(pod["spec"])
    for quota in store.all("resourcequotas", namespace):
        for key, limit in quota["spec"]["hard"].items():
            mine = 1.0 if key in ("pods", "count/pods") else asked.get(key.removeprefix("requests."), 0.0)
            if not mine or not (key in ("pods", "count/pods") or key.startswith("requests.")):
                continue
            live = [one for one in store.all("pods", namespace) if one["status"].get("phase") in ("Pending", "Running")]
            held = quota["status"].get("standin") if "status" in quota else None
            used = sum(
                1.0 if key in ("pods", "count/pods") else requests(one["spec"]).get(key.removeprefix("requests."), 0.0)
                for one in live
            )
            used = held if held is not None else used
            if used + mine > amount(limit):
                parts = f"requested: {key}={mine:g}, used: {key}={used:g}, limited: {key}={limit}"
                text = f'pods "{name}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, {parts}'
                raise Refused(403, "Forbidden", text, {"name": name, "kind": "pods"})


def check_pod_security(store: Store, namespace: str, pod: Object) -> str:
    """What the namespace's level `restricted` has against this pod, as recorded; "" for nothing."""
    try:
        labels = store.get("namespaces", "", namespace)["metadata"].get("labels") or {}
    except Refused:
        return ""
    if labels.get("pod-security.kubernetes.io/enforce") != "restricted":
        return ""
    spec = pod["spec"]
    whole = spec.get("securityContext") or {}
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    own = {one["name"]: one.get("securityContext") or {} for one in containers}

    def of(names: list[str]) -> str:
        listed = ", ".join(f'"{name}"' for name in names)
        return f"container{'s' if len(names) > 1 else ''} {listed}"

    def kind(context: Object) -> Any:
        return (context.get("seccompProfile") or {}).get("type")

    parts = []
    if bad := [name for name, one in own.items() if one.get("allowPrivilegeEscalation") is not False]:
        parts.append(
            f"allowPrivilegeEscalation != false ({of(bad)} must set securityContext.allowPrivilegeEscalation=false)"
        )
    if bad := [name for name, one in own.items() if "ALL" not in (one.get("capabilities") or {}).get("drop", ())]:
        parts.append(f'unrestricted capabilities ({of(bad)} must set securityContext.capabilities.drop=["ALL"])')
    if bad := [name for name, one in own.items() if one.get("runAsNonRoot", whole.get("runAsNonRoot")) is not True]:
        parts.append(f"runAsNonRoot != true (pod or {of(bad)} must set securityContext.runAsNonRoot=true)")
    if any(one.get("runAsUser", whole.get("runAsUser")) == 0 for one in own.values()):
        parts.append("runAsUser=0 (pod must not set runAsUser=0)")
    if bad := [name for name, one in own.items() if (kind(one) or kind(whole)) not in ("RuntimeDefault", "Localhost")]:
        parts.append(
            f'seccompProfile (pod or {of(bad)} must set securityContext.seccompProfile.type to "RuntimeDefault" or'
            ' "Localhost")'
        )
    return f'"restricted:latest": {", ".join(parts)}' if parts else ""


def requests(spec: Object) -> dict[str, float]:
    """What the containers of a pod ask for, in sum."""
    out: dict[str, float] = {}
    for container in spec.get("containers", ()):
        asked = container.get("resources") or {}
        for key, value in {**(asked.get("limits") or {}), **(asked.get("requests") or {})}.items():
            out[key] = out.get(key, 0.0) + amount(value)
    return out


def amount(text: Any) -> float:
    """A quantity."""
    found = re.fullmatch(r"([\d.]+)(m|[kMGTP]i?|Ki)?", str(text))
    assert found, text
    unit = found[2] or ""
    scale = {"": 1.0, "m": 0.001}.get(unit)
    if scale is None:
        power = "kMGTP".index(unit[0].replace("K", "k")) + 1
        scale = float((1024 if unit.endswith("i") else 1000) ** power)
    return float(found[1]) * scale
