"""Who asks: tokens are made, recognised and revoked, and every act is on the log."""

from __future__ import annotations

from keyveil.collector.campaigns.host import Host
from keyveil.collector.campaigns.messages import (
    ActList,
    ActView,
    NewToken,
    TokenCreated,
    TokenList,
    TokenView,
)
from keyveil.collector.problems import Problem
from keyveil.collector.store.base import AccessWriting
from keyveil.collector.tokens import BELOW_OPERATOR, Credential, Role, digest, mint, recognise
from keyveil.errors import StoreError

# Who acts where no token does: the clock, or the count of reports.
NOBODY = ""
# Device credentials in the cache.
_DEVICES = 100_000


class Access:
    """The tokens of a collector."""

    def __init__(self, context: Host) -> None:
        self._context = context
        self._devices: dict[bytes, Credential] = {}
        self._by_id: dict[str, Credential] = {}

    def first_token(self) -> str | None:
        """An admin token where none was ever made; it is shown once."""
        try:
            with self._context.store.write() as tx:
                tx.be_alone()
                if tx.has_admin():
                    return None
                return self._make_admin(tx, label="made at the first start")
        except StoreError as error:
            if not error.damaged:
                raise
            self._context.mark_damaged("tokens", str(error))
            return None

    def recover(self) -> str:
        """Another admin token, for whoever holds the store; it is shown once."""
        with self._context.store.write() as tx:
            return self._make_admin(tx, label="recovered by whoever holds the store")

    def _make_admin(self, tx: AccessWriting, *, label: str) -> str:
        now = self._context.now()
        token, credential = mint(Role.ADMIN, None, now=now, label=label)
        tx.add_credential(credential)
        tx.log(at=now, token=NOBODY, act="token-made", detail=f"{credential.id} admin, {label}")
        return token

    def cached(self, token: str) -> Credential | None:
        """A device's credential from the cache; that it is live is checked again where reports are written.

        Found by the token's digest, so that the time it takes says nothing about other tokens.
        """
        return self._devices.get(digest(token))

    def is_cached(self, credential: Credential) -> bool:
        """Whether a credential that `cached` gave is what it would give now."""
        return self._by_id.get(credential.id) is credential

    def recognise(self, token: str) -> Credential | None:
        """The credential behind a token, as the store knows it now."""
        with self._context.store.read() as tx:
            found = recognise(token, tx.credential)
        if found is not None and found.role is Role.DEVICE:
            if len(self._devices) >= _DEVICES:
                self._devices.clear()
                self._by_id.clear()
            self._devices[digest(token)] = self._by_id[found.id] = found
        return found

    def make(self, actor: Credential, campaign: str | None, new: NewToken) -> TokenCreated:
        """A token for a campaign or a series that is known here, or for the whole collector."""
        role = Role(new.role)
        if actor.role is not Role.ADMIN and role not in BELOW_OPERATOR:
            raise Problem("forbidden", "an operator makes tokens for devices and analysts")
        if campaign is not None and role in (Role.ADMIN, Role.MONITOR):
            raise Problem(
                "forbidden",
                f"a token of role {role.value} is for the whole collector; make it at /v1/tokens",
            )
        now = self._context.now()
        token, credential = mint(role, campaign, now=now, label=new.label, rate=new.rate)
        with self._context.store.write() as tx:
            tx.add_credential(credential)
            detail = f"{credential.id} {role.value}"
            tx.log(at=now, token=actor.id, act="token-made", campaign=campaign or "", detail=detail)
        return TokenCreated(id=credential.id, token=token, role=new.role, campaign=campaign)

    def list(self, campaign: str | None) -> TokenList:
        """The tokens of a campaign, or those of the whole collector."""
        with self._context.store.read() as tx:
            found = tx.credentials(campaign)
        return TokenList(
            tokens=[
                TokenView(
                    id=credential.id,
                    role=credential.role.value,
                    campaign=credential.campaign,
                    label=credential.label,
                    rate=credential.rate,
                    created_at=credential.created_at,
                    revoked_at=credential.revoked_at,
                )
                for credential in found
            ]
        )

    def revoke(self, actor: Credential, campaign: str | None, id: str) -> None:
        """A token of this scope opens nothing from now on."""
        now = self._context.now()
        with self._context.store.write() as tx:
            found = tx.credential(id)
            if found is None or found.campaign != campaign:
                raise Problem("unknown-token-id")
            if actor.role is not Role.ADMIN and found.role not in BELOW_OPERATOR:
                raise Problem("forbidden", "an operator revokes tokens of devices and analysts")
            if found.role is Role.ADMIN and not self._has_other_admin(tx, id):
                raise Problem("last-admin")
            tx.revoke(id, now)
            tx.log(at=now, token=actor.id, act="token-revoked", campaign=campaign or "", detail=id)
        self._by_id.pop(id, None)
        self._devices = {key: device for key, device in self._devices.items() if device.id != id}

    def _has_other_admin(self, tx: AccessWriting, id: str) -> bool:
        # Two who revoke each other's at once must not both succeed.
        tx.be_alone()
        live = [each for each in tx.credentials(None) if each.role is Role.ADMIN and each.revoked_at is None]
        return any(each.id != id for each in live)

    def acts(self, after: int) -> ActList:
        """The log of administrative acts from a place on."""
        with self._context.store.read() as tx:
            found = tx.acts(after=after)
        return ActList(
            acts=[
                ActView(
                    no=act.no,
                    at=act.at,
                    token=act.token,
                    act=act.act,
                    campaign=act.campaign,
                    detail=act.detail,
                )
                for act in found
            ]
        )
