from __future__ import annotations

import pytest

from flask_geneva.webhooks import StandardWebhook
from tests.webhooks.signing import SECRET

csrf = pytest.importorskip("flask_wtf.csrf")


def test_csrf_protection_that_comes_after_us_leaves_webhooks_alone(make_shop):
    shop = make_shop()
    csrf.CSRFProtect(shop.app)
    shop.geneva.webhook("own", StandardWebhook(SECRET))(lambda event: None)
    shop.app.post("/form")(lambda: "never")

    assert shop.deliver({}, source="own").status_code == 204
    assert shop.signal(shop.start(), "paid", 1).status_code == 202
    assert shop.client.post("/form").status_code == 400


def test_csrf_protection_that_comes_before_us_leaves_webhooks_alone(make_shop):
    protection = csrf.CSRFProtect()
    shop = make_shop(before=protection.init_app)
    shop.geneva.webhook("own", StandardWebhook(SECRET))(lambda event: None)

    assert shop.deliver({}, source="own").status_code == 204
