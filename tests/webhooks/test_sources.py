from __future__ import annotations

import traceback

import pytest
from flask import Flask

from flask_geneva.errors import ConfigurationError
from flask_geneva.webhooks import Delivery, GitHubWebhook, HmacWebhook, InvalidSignature, StandardWebhook, StripeWebhook
from flask_geneva.webhooks.sources import WebhookSources
from tests.webhooks.signing import SECRET


@pytest.fixture
def sources():
    return WebhookSources()


@pytest.fixture
def app():
    return Flask("shop")


def ignore(event):
    return None


@pytest.mark.parametrize(
    "verifier",
    [
        StandardWebhook(secrets=[]),
        StandardWebhook(secrets=None),
        StandardWebhook(secrets=""),
        StandardWebhook(secrets=[SECRET, ""]),
        StandardWebhook(secrets=["whsec_"]),
        StandardWebhook(secrets=["whsec_not-base64!"]),
        StandardWebhook(secrets=[SECRET + "\n"]),
        StandardWebhook(secrets=[f" {SECRET}"]),
        StandardWebhook(secrets=[SECRET[:20] + "-" + SECRET[20:]]),
        StandardWebhook(secrets=["whsec_A"]),
        StandardWebhook(secrets=b""),
        StandardWebhook(secrets=[12]),
        StandardWebhook(secrets={"a": SECRET}),
        StripeWebhook(secrets=["sk_live_4eC39HqLyjWDarjtT1zdp7dc"]),
        GitHubWebhook(secrets=["line end\n"]),
        HmacWebhook(secrets=[None], header="X-Hmac"),
        HmacWebhook(secrets=["\ud800"], header="X-Hmac"),
    ],
)
def test_secrets_of_the_wrong_form_are_refused_at_registration_and_name_the_source(sources, verifier):
    with pytest.raises(ConfigurationError, match="webhook source 'payments'") as caught:
        sources.register("payments", verifier)(ignore)

    text = "".join(traceback.format_exception(caught.value))
    assert "MfKQ9" not in text.split("Error:", 1)[1]
    assert "4eC39Hq" not in "".join(str(error) for error in (caught.value, caught.value.__cause__))
    assert sources.get("payments") is None


def test_a_config_key_stands_for_its_value(sources, app):
    app.config.update(PAYMENT_SECRETS=[SECRET, b"raw"], PLAIN="hush")
    sources.register("payments", StandardWebhook(secrets="PAYMENT_SECRETS"))(ignore)
    sources.register("parcels", HmacWebhook(["PLAIN"], "X-Hmac"))(ignore)

    sources.serve(app)

    assert sources.get("payments").verifier._secrets.keys(app.config)[1] == b"raw"
    assert sources.get("parcels").verifier._secrets.keys(app.config) == [b"hush"]


@pytest.mark.parametrize("value", [None, "", [], [""], 7, "whsec_%"])
def test_a_config_key_without_a_usable_secret_is_refused_when_the_app_is_initialised(sources, app, value):
    sources.register("payments", StandardWebhook(secrets="PAYMENT_SECRET"))(ignore)
    app.config["PAYMENT_SECRET"] = value

    with pytest.raises(ConfigurationError, match=r"webhook source 'payments'.*'PAYMENT_SECRET'"):
        sources.serve(app)


def test_a_forgotten_config_key_is_never_taken_for_the_secret_itself(sources, app):
    sources.register("hub", GitHubWebhook(secrets="GITHUB_SECRET"))(ignore)

    with pytest.raises(ConfigurationError, match="'GITHUB_SECRET' is the name of a config key that is not set"):
        sources.serve(app)


def test_a_source_registered_after_the_app_is_checked_against_its_config(sources, app):
    sources.serve(app)

    with pytest.raises(ConfigurationError, match="webhook source 'hub'"):
        sources.register("hub", GitHubWebhook(secrets="GITHUB_SECRET"))
    app.config["GITHUB_SECRET"] = "hush"
    sources.register("hub", GitHubWebhook(secrets="GITHUB_SECRET"))(ignore)


def test_callables_are_asked_at_each_request_and_never_at_start_up(sources, app):
    answers = []
    verifier = GitHubWebhook(secrets=[lambda: answers])
    sources.register("hub", verifier)(ignore)
    sources.serve(app)

    answers[:] = ["first", b"second"]
    assert verifier._secrets.keys(app.config) == [b"first", b"second"]
    answers[:] = []
    with pytest.raises(ConfigurationError, match="answered: it is missing or empty"):
        verifier._secrets.keys(app.config)


@pytest.mark.parametrize("name", ["", "a/b", None, 3])
def test_a_name_that_cannot_be_in_the_url_is_refused(sources, name):
    with pytest.raises(ConfigurationError, match="part of a URL"):
        sources.register(name, GitHubWebhook("hush"))


def test_a_second_source_of_one_name_is_refused(sources):
    sources.register("hub", GitHubWebhook("hush"))(ignore)

    with pytest.raises(ConfigurationError, match="registered already"):
        sources.register("hub", GitHubWebhook("hush"))


@pytest.mark.parametrize("verifier", [None, "secret", GitHubWebhook, object()])
def test_what_cannot_verify_is_refused(sources, verifier):
    with pytest.raises(ConfigurationError, match="not a verifier"):
        sources.register("hub", verifier)


def test_an_own_verifier_needs_nothing_but_verify(sources, app):
    class Closed:
        def verify(self, request):
            raise InvalidSignature("closed")

    sources.register("closed", Closed())(ignore)
    sources.serve(app)

    assert [source.name for source in sources] == ["closed"]


def test_the_decorated_handler_stays_a_plain_function(sources):
    assert sources.register("hub", GitHubWebhook("hush"))(ignore) is ignore


def test_a_delivery_does_not_show_its_payload():
    assert "4111" not in repr(Delivery(None, "paid", payload={"card": "4111"}))
