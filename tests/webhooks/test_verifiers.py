from __future__ import annotations

import base64
import hashlib
import hmac
import time
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from flask_geneva.errors import ConfigurationError
from flask_geneva.webhooks import (
    GitHubWebhook,
    HmacWebhook,
    InvalidSignature,
    MalformedRequest,
    StandardWebhook,
    StripeWebhook,
)
from tests.webhooks.signing import SECRET

OTHER_SECRET = "whsec_" + base64.b64encode(b"another secret of 24 byte").decode()
BODY = b'{"type": "invoice.paid", "amount": 5}'
PUBLISHED = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
SCHEMES = {
    "standard": (StandardWebhook(secrets=[SECRET]), "sign_standard"),
    "stripe": (StripeWebhook(secrets="whsec_stripe"), "sign_stripe"),
    "github": (GitHubWebhook(secrets="It's a Secret to Everybody"), "sign_github"),
    "hmac": (HmacWebhook("It's a Secret to Everybody", "X-Hub-Signature-256", prefix="sha256="), "sign_github"),
}


@pytest.fixture(params=SCHEMES)
def scheme(request):
    verifier, signer = SCHEMES[request.param]
    return verifier, request.getfixturevalue(signer)


@time_machine.travel(datetime.fromtimestamp(1614265330, UTC), tick=False)
def test_the_published_example_of_standard_webhooks_verifies(request_of):
    event = StandardWebhook(secrets=[SECRET]).verify(request_of(b'{"test": 2432232314}', PUBLISHED))

    assert event.id == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert event.timestamp == datetime.fromtimestamp(1614265330, UTC)
    assert event.data == {"test": 2432232314}
    assert event.type is None


def test_the_published_example_of_github_verifies(request_of):
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    verifier = GitHubWebhook(secrets=["It's a Secret to Everybody"])

    # Its body is no JSON: that this is what is complained of shows that the signature was right.
    with pytest.raises(MalformedRequest):
        verifier.verify(request_of(b"Hello, World!", {"X-Hub-Signature-256": signature}))
    with pytest.raises(InvalidSignature):
        verifier.verify(request_of(b"Hello, World?", {"X-Hub-Signature-256": signature}))


def test_a_signed_request_is_an_event(scheme, request_of):
    verifier, sign = scheme

    event = verifier.verify(request_of(BODY, sign(BODY)))

    assert event.data == {"type": "invoice.paid", "amount": 5}
    assert event.body == BODY
    assert event.type == ("push" if isinstance(verifier, GitHubWebhook) else "invoice.paid")


def test_every_byte_of_the_body_is_signed(scheme, request_of):
    verifier, sign = scheme
    headers = sign(BODY)

    for place in range(len(BODY)):
        altered = BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :]
        with pytest.raises(InvalidSignature):
            verifier.verify(request_of(altered, headers))


@pytest.mark.parametrize("mask", [1, 2, 16, 32])
def test_every_byte_of_every_signed_header_counts(scheme, request_of, mask):
    verifier, sign = scheme
    headers = sign(BODY)
    unsigned = {"X-GitHub-Event", "X-GitHub-Delivery"}

    for name in headers.keys() - unsigned:
        text = headers[name].partition(",v0=")[0]
        for place in range(len(text)):
            altered = text[:place] + chr(ord(text[place]) ^ mask) + text[place + 1 :]
            if altered.isprintable():
                with pytest.raises(InvalidSignature):
                    verifier.verify(request_of(BODY, headers | {name: altered}))


def test_a_request_without_its_header_is_refused(scheme, request_of):
    verifier, sign = scheme
    headers = sign(BODY)

    for name in headers.keys() - {"X-GitHub-Event", "X-GitHub-Delivery"}:
        with pytest.raises(InvalidSignature, match="missing or empty"):
            verifier.verify(request_of(BODY, headers | {name: ""}))
        with pytest.raises(InvalidSignature, match="missing or empty"):
            verifier.verify(request_of(BODY, {other: text for other, text in headers.items() if other != name}))


@pytest.mark.parametrize(
    "text",
    [
        "v1",
        ",",
        "v1,",
        " ",
        "v1,%%%",
        "v1a,abc",
        "\x80\xff",
        "v1," * 2000,
        "v2,abc v1",
        "sha256=",
        "=",
        "t=",
        "t=1,t=2",
    ],
)
def test_a_malformed_signature_header_is_refused(scheme, request_of, text):
    verifier, sign = scheme
    headers = sign(BODY)
    name = next(name for name in headers if "ignature" in name)

    with pytest.raises(InvalidSignature):
        verifier.verify(request_of(BODY, headers | {name: text}))


@pytest.mark.parametrize("sign_it", ["sign_standard", "sign_stripe"])
@pytest.mark.parametrize(("seconds", "accepted"), [(-299, True), (299, True), (-302, False), (302, False)])
def test_the_time_window_is_five_minutes_both_ways(request, request_of, sign_it, seconds, accepted):
    verifier = next(verifier for verifier, signer in SCHEMES.values() if signer == sign_it)
    headers = request.getfixturevalue(sign_it)(BODY, sent_at=int(time.time()) + seconds)

    if accepted:
        assert verifier.verify(request_of(BODY, headers)).data["amount"] == 5
    else:
        with pytest.raises(InvalidSignature, match="too old" if seconds < 0 else "too new"):
            verifier.verify(request_of(BODY, headers))


def test_the_time_window_can_be_set(request_of, sign_standard):
    headers = sign_standard(BODY, sent_at=int(time.time()) - 500)

    StandardWebhook(secrets=SECRET, tolerance=600).verify(request_of(BODY, headers))
    StandardWebhook(secrets=SECRET, tolerance=timedelta(minutes=10)).verify(request_of(BODY, headers))
    StandardWebhook(secrets=SECRET, tolerance=None).verify(request_of(BODY, headers))
    with pytest.raises(InvalidSignature, match="too old"):
        StandardWebhook(secrets=SECRET, tolerance=60).verify(request_of(BODY, headers))


@pytest.mark.parametrize("tolerance", [-1, True, float("nan"), float("inf"), "300", timedelta(seconds=-1)])
def test_a_time_window_of_another_kind_is_refused(tolerance):
    with pytest.raises(ConfigurationError, match="tolerance"):
        StandardWebhook(secrets=SECRET, tolerance=tolerance)


@pytest.mark.parametrize(
    "respell", ["0{}", "+{}", "{}.0", "{}e0", " {} ", "1_{}", "{}\u0661", "-{}", "9" * 5000, "nan", "99999999999999"]
)
def test_another_spelling_of_the_time_is_refused(request_of, sign_standard, respell):
    headers = sign_standard(BODY)
    spelled = respell.format(headers["webhook-timestamp"])

    with pytest.raises(InvalidSignature):
        StandardWebhook(secrets=SECRET).verify(request_of(BODY, headers | {"webhook-timestamp": spelled}))


def test_a_second_spelling_of_a_base64_signature_is_refused(request_of, sign_standard):
    headers = sign_standard(BODY)
    signature = headers["webhook-signature"]

    for spelled in (signature.rstrip("="), signature + "=", signature[:-3] + "!" + signature[-3:]):
        with pytest.raises(InvalidSignature):
            StandardWebhook(secrets=SECRET).verify(request_of(BODY, headers | {"webhook-signature": spelled}))


def test_any_of_several_signatures_may_match(request_of, sign_standard, sign_stripe, sign_github):
    standard = sign_standard(BODY)
    standard["webhook-signature"] = "v1a,abc v1,AAAA " + standard["webhook-signature"]
    stripe = {"Stripe-Signature": sign_stripe(BODY)["Stripe-Signature"].replace(",v1=", f",v1={'a' * 64},v1=")}
    github = {"X-Hub-Signature-256": "sha256=abc, " + sign_github(BODY)["X-Hub-Signature-256"]}

    for (verifier, _), headers in zip(SCHEMES.values(), (standard, stripe, github, github), strict=True):
        assert verifier.verify(request_of(BODY, headers)).data["amount"] == 5


def test_a_stripe_signature_with_two_times_is_refused(request_of, sign_stripe):
    header = sign_stripe(BODY)["Stripe-Signature"]
    time_part = header.partition(",")[0]

    for doubled in (f"{time_part},{header}", f"{header},{time_part}", f"{header},t=1"):
        with pytest.raises(InvalidSignature, match="one time"):
            StripeWebhook("whsec_stripe").verify(request_of(BODY, {"Stripe-Signature": doubled}))


def test_old_and_new_secret_are_both_valid_during_a_rotation(request_of, sign_standard):
    verifier = StandardWebhook(secrets=[OTHER_SECRET, SECRET])

    verifier.verify(request_of(BODY, sign_standard(BODY, secret=SECRET)))
    verifier.verify(request_of(BODY, sign_standard(BODY, secret=OTHER_SECRET)))
    with pytest.raises(InvalidSignature):
        StandardWebhook(secrets=[OTHER_SECRET]).verify(request_of(BODY, sign_standard(BODY, secret=SECRET)))


def test_an_own_scheme_may_sign_the_time_too(request_of):
    verifier = HmacWebhook(
        "hush", "X-Signature", prefix="v0=", timestamp_header="X-Timestamp", signed="v0:{timestamp}:{body}"
    )
    seconds = int(time.time())
    digest = hmac.new(b"hush", f"v0:{seconds}:".encode() + BODY, hashlib.sha256).hexdigest()

    event = verifier.verify(request_of(BODY, {"X-Signature": f"v0={digest}", "X-Timestamp": str(seconds)}))

    assert event.timestamp == datetime.fromtimestamp(seconds, UTC)
    with pytest.raises(InvalidSignature):
        verifier.verify(request_of(BODY, {"X-Signature": f"v0={digest}", "X-Timestamp": str(seconds - 1)}))


def test_a_plain_hmac_takes_id_and_time_from_their_headers(request_of):
    verifier = HmacWebhook(
        [b"hush"], "X-Hmac", "sha512", "base64", prefix="HMAC ", id_header="X-Id", timestamp_header="X-Time"
    )
    signature = "HMAC " + base64.b64encode(hmac.digest(b"hush", BODY, "sha512")).decode()
    headers = {"X-Hmac": signature, "X-Id": "7", "X-Time": str(int(time.time()))}

    assert verifier.verify(request_of(BODY, headers)).id == "7"
    for malformed in ({"X-Id": ""}, {"X-Id": "x" * 256}, {"X-Time": "soon"}, {"X-Time": "1"}):
        with pytest.raises(InvalidSignature):
            verifier.verify(request_of(BODY, headers | malformed))


@pytest.mark.parametrize("name", ["webhook-id", "X-GitHub-Delivery"])
@pytest.mark.parametrize("event_id", ["x" * 256, "nul\x00"])
def test_an_id_that_no_database_can_hold_is_refused(request_of, sign_standard, sign_github, name, event_id):
    verifier, sign = (
        (SCHEMES["standard"][0], sign_standard) if name == "webhook-id" else (GitHubWebhook("s"), sign_github)
    )
    headers = sign(BODY, id=event_id) if name == "webhook-id" else sign(BODY, id=event_id, secret="s")

    with pytest.raises(InvalidSignature, match="holds no id"):
        verifier.verify(request_of(BODY, headers))


def test_stripe_takes_id_and_type_from_the_body(request_of, sign_stripe):
    body = b'{"id": "evt_1", "type": "charge.refunded"}'

    event = StripeWebhook("whsec_stripe").verify(request_of(body, sign_stripe(body)))

    assert (event.id, event.type) == ("evt_1", "charge.refunded")
    for unfit in (b'{"id": "%s"}' % (b"x" * 256), b'{"id": ""}', b'{"id": "\\u0000"}'):
        with pytest.raises(MalformedRequest, match="'id'"):
            StripeWebhook("whsec_stripe").verify(request_of(unfit, sign_stripe(unfit)))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'{"a": NaN}', b"[1e999]", b"\xef\xbb\xbf{}", b"[" * 5000, b"1 2"]
)
def test_a_signed_body_that_is_not_json_is_malformed(scheme, request_of, body):
    verifier, sign = scheme

    with pytest.raises(MalformedRequest):
        verifier.verify(request_of(body, sign(body)))


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("header", ["", "X Hmac", "X-Hmac\n", None]),
        ("id_header", ["", 7]),
        ("timestamp_header", ["", "X:Time"]),
        ("algorithm", ["sha257", "", None, "shake_128"]),
        ("encoding", ["hex2", None]),
        ("prefix", [None, b"v1="]),
        ("signed", ["x", "", None, "{timestamp}.{body}", "{id}.{body}"]),
    ],
)
def test_an_hmac_that_cannot_be_is_refused_when_it_is_declared(option, values):
    for value in values:
        with pytest.raises(ConfigurationError, match=r"Cannot (verify|compute) an HMAC"):
            HmacWebhook("hush", **{"header": "X-Hmac", option: value})


def test_no_text_of_a_verifier_or_an_event_reveals_a_secret(scheme, request_of):
    verifier, sign = scheme
    event = verifier.verify(request_of(BODY, sign(BODY)))

    for text in (repr(verifier), repr(verifier._secrets), repr(event)):
        assert "MfKQ9" not in text
        assert "whsec_stripe" not in text
        assert "Everybody" not in text
        assert "sha256=" not in text
