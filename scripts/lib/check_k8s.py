"""Holds what kustomize rendered to Kubernetes' schemas, and metrics that are named to those that there are.

usage: check_k8s.py RENDERED METRICS RULES
    RENDERED   a folder of what was rendered
    METRICS    a file: what a server's /metrics answered
    RULES      a folder to write, for promtool: the alerts, their tests, and the dashboard's queries as rules
"""

import json
import pathlib
import re
import sys

import kubernetes_validate
import yaml

VERSIONS = ["1.34", "1.35", "1.36", "1.37"]
# Their schemas are separate from Kubernetes's.
OF_OTHERS = {"ScaledObject", "PodMonitor", "PrometheusRule", "ListActorPool"}
# Metrics of parts that the tested server lacks: databases, issuers of tokens, TLS.
ELSEWHERE = re.compile(r"liststore_(access_issuer|cql|metadata_postgres|http_tls|operator)_")
METRIC = re.compile(r"\b(?:liststore|process)_[a-z0-9_]+\b")

wrong = []


def tell(text):
    wrong.append(text)


def held_to_the_schemas(file, document):
    name = f"{file.name}: {document['kind']}/{document['metadata']['name']}"
    if document["kind"] in OF_OTHERS:
        return 0
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            tell(f"{name} is not valid for {version}: {str(error).splitlines()[0]}")
    return len(VERSIONS)


def environment(container, config_maps):
    values = {}
    for source in container.get("envFrom", []):
        values.update(config_maps.get(source.get("configMapRef", {}).get("name"), {}))
    values.update({entry["name"]: entry["value"] for entry in container.get("env", []) if "value" in entry})
    return values


def held_to_our_rules(file, documents):
    config_maps = {d["metadata"]["name"]: d.get("data", {}) for d in documents if d["kind"] == "ConfigMap"}
    for document in documents:
        # One, because there is no election among them: it is no server.
        if document["metadata"]["name"] == "liststore-operator":
            continue
        if document["kind"] in ("Deployment", "ListActorPool") and "replicas" in document["spec"]:
            tell(f"{file.name}: each apply would undo the autoscaler: `replicas`")
        if document["kind"] not in ("Deployment", "StatefulSet"):
            continue
        pod = document["spec"]["template"]["spec"]
        settings = environment(pod["containers"][0], config_maps)
        delay = int(settings["LISTSTORE__HTTP__DRAIN_DELAY_SECS"])
        grace = int(settings["LISTSTORE__HTTP__SHUTDOWN_GRACE_SECS"])
        if pod["terminationGracePeriodSeconds"] <= delay + grace:
            tell(f"{file.name}: a pod would be killed while it drains: {delay} + {grace} s")
        ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
        for name, setting in (("http", "LISTSTORE__HTTP__LISTEN"), ("admin", "LISTSTORE__ADMIN__LISTEN")):
            if not settings[setting].endswith(f":{ports[name]}"):
                tell(f"{file.name}: the port {name} is not that of {setting}")
        scheme = "HTTPS" if settings.get("LISTSTORE__ADMIN__TLS") == "true" else "HTTP"
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if pod["containers"][0][probe]["httpGet"].get("scheme", "HTTP") != scheme:
                tell(f"{file.name}: the scheme of the {probe} is not {scheme}")


def selects(document):
    """The labels of the pods that an object selects, if it selects any."""
    spec = document.get("spec", {})
    if document["kind"] == "Service":
        return spec["selector"]
    selector = spec.get("selector") or spec.get("podSelector") or {}
    return selector.get("matchLabels")


def pods_of(documents):
    """The labels of the pods of each object that makes pods."""
    for document in documents:
        spec = document.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if document["kind"] == "Pod":
            yield document, document["metadata"]["labels"]
        elif "template" in spec:
            yield document, spec["template"]["metadata"]["labels"]


def values_of(document, *fields):
    """What these fields have anywhere in an object."""
    if isinstance(document, list):
        for value in document:
            yield from values_of(value, *fields)
    elif isinstance(document, dict):
        for name, value in document.items():
            if name in fields:
                yield value
            else:
                yield from values_of(value, *fields)


def refers_to(documents):
    """The names of Secrets, claims, ConfigMaps and Deployments that objects refer to."""
    for document in documents:
        yield from values_of(document, "secretName", "claimName")
        for reference in values_of(document, "secretRef", "configMapRef", "scaleTargetRef", "deploymentRef"):
            yield reference["name"]


def claims_of(documents):
    """The names of the claims that objects are, or that a StatefulSet of one pod makes."""
    for document in documents:
        if document["kind"] == "PersistentVolumeClaim":
            yield document["metadata"]["name"]
        for claim in document.get("spec", {}).get("volumeClaimTemplates", []):
            yield f"{claim['metadata']['name']}-{document['metadata']['name']}-0"


def held_apart(one, other, of_one, of_other):
    """No object of an installation selects a pod or refers to an object of another one in the same namespace."""
    for name in sorted(set(refers_to(of_one)) & set(refers_to(of_other))):
        tell(f"{one} and {other} both refer to {name}")
    for name in sorted(set(values_of(of_one, "claimName")) - set(claims_of(of_one))):
        tell(f"{one} has no claim {name}")
    for document in of_one:
        labels = selects(document)
        for owner, pod in pods_of(of_other):
            if labels and labels.items() <= pod.items():
                kind, name = document["kind"], document["metadata"]["name"]
                tell(f"{one}: {kind}/{name} selects pods of {owner['kind']}/{owner['metadata']['name']} of {other}")
    names = {(d["kind"], d["metadata"]["name"]) for d in of_one} & {(d["kind"], d["metadata"]["name"]) for d in of_other}
    for kind, name in sorted(names):
        tell(f"{one} and {other} both have {kind}/{name}")


def queries_of_dashboard():
    dashboard = json.loads(pathlib.Path("k8s/monitoring/dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    queries += [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    return queries


def queries_of_autoscalers(rendered):
    for document in yaml.safe_load_all((rendered / "keda.yaml").read_text()):
        if document["kind"] == "ScaledObject":
            yield from (t["metadata"]["query"] for t in document["spec"]["triggers"] if "query" in t["metadata"])
    adapter = yaml.safe_load(pathlib.Path("k8s/overlays/hpa/adapter-rules.yaml").read_text())
    for rule in adapter["rules"]:
        yield rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", 'namespace="liststore"')


def known_metrics(metrics):
    shown = set(re.findall(r"^# TYPE (\S+) ", metrics, re.MULTILINE))
    page = pathlib.Path("docs/reference/metrics.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))
    return shown | {name for name in documented if ELSEWHERE.match(name)}


def main():
    rendered, metrics, rules = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text(), pathlib.Path(sys.argv[3])
    checked = 0
    for file in sorted(rendered.glob("*.yaml")):
        documents = list(yaml.safe_load_all(file.read_text()))
        checked += sum(held_to_the_schemas(file, document) for document in documents)
        held_to_our_rules(file, documents)

    for kind in ("single", "cql"):
        one, other = (
            [d for file in sorted(rendered.glob(f"{name}-{kind}-*.yaml")) for d in yaml.safe_load_all(file.read_text())]
            for name in ("one", "other")
        )
        held_apart("an installation", f"another one ({kind})", one, other)
        held_apart(f"another one ({kind})", "an installation", other, one)

    rules.mkdir()
    alerts = yaml.safe_load(pathlib.Path("k8s/monitoring/alerts.yaml").read_text())["spec"]
    (rules / "rules.yaml").write_text(yaml.safe_dump(alerts))
    tests = pathlib.Path("k8s/monitoring/alerts_test.yaml").read_text()
    (rules / "alerts_test.yaml").write_text(tests)
    alert_rules = alerts["groups"][0]["rules"]
    for alert in alert_rules:
        if f"name: {alert['alert']}\n" not in tests:
            tell(f"the alert {alert['alert']} has no test")

    queries = queries_of_dashboard()
    panels = [q.replace("$__rate_interval", "1m") for q in queries if not q.startswith("label_values")]
    panels += queries_of_autoscalers(rendered)
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(panels)]
    (rules / "queries-rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))

    known = known_metrics(metrics)
    for query in queries + panels + [alert["expr"] for alert in alert_rules]:
        for name in METRIC.findall(query):
            if not {name, re.sub(r"_(bucket|count|sum)$", "", name)} & known:
                tell(f"no server shows {name}, which is asked for by: {query}")
    for text in dict.fromkeys(wrong):
        print(f"check-k8s: {text}", file=sys.stderr)
    print(f"check-k8s: {checked} validations, {len(panels)} queries, {len(alert_rules)} alerts", file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
