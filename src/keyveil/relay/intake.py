"""The route of sealed reports: a collector's bounds and deadlines, and a relay's way to read."""

from __future__ import annotations

from typing import Any

from keyveil.collector.campaigns.cache import StoredCampaign
from keyveil.collector.http.intake import Intake
from keyveil.collector.problems import Problem
from keyveil.collector.tokens import Credential
from keyveil.collector.writing.upload import Upload
from keyveil.relay.sealed import read_sealed, read_uniform_sealed


class SealedIntake(Intake):
    """POST /v1/campaigns/{id}/sealed."""

    suffix = "/sealed"

    def check_route(self, known: StoredCampaign) -> None:
        """Refuse what no relay carries."""
        if not known.campaign.is_relayed:
            raise Problem("not-relayed")

    def named(self, known: StoredCampaign, credential: Credential | None) -> dict[str, Any]:
        """What an upload is read with: a sealed one shows no campaign's tag."""
        named = super().named(known, credential)
        del named["tag"]
        return named

    def read_upload(self, body: bytes, kind: str, **named: Any) -> Upload:
        """The upload in a body; one that cannot be taken apart is refused as a whole."""
        return read_sealed(body, kind, **named)

    def read_uniform(self, body: bytes, **named: Any) -> Upload | None:
        """The upload in a body of equal frames, which is soon read; None where it must be taken apart."""
        return read_uniform_sealed(body, **named)
