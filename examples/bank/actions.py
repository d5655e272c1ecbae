"""The bank behind the example: one account with a hundred euros that never changes."""

from __future__ import annotations

from server.dialogue.sdk import Action, CollectingDispatcher, DomainDict, Event, SlotSet, Tracker

BALANCE = 100.0


class CheckFunds(Action):
    def name(self) -> str:
        return "action_check_funds"

    async def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> list[Event]:
        return [SlotSet("funds_ok", tracker.get_slot("amount") <= BALANCE)]


class ExecuteTransfer(Action):
    def name(self) -> str:
        return "action_execute_transfer"

    async def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> list[Event]:
        receipt = {"to": tracker.get_slot("recipient"), "amount": tracker.get_slot("amount")}
        return [SlotSet("receipt", receipt)]


class FetchBalance(Action):
    def name(self) -> str:
        return "action_fetch_balance"

    async def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> list[Event]:
        return [SlotSet("balance", BALANCE)]
