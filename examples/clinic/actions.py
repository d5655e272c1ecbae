"""The clinic behind the example: a week of openings, one known booking, and a surgery system that is down."""

from __future__ import annotations

from server.dialogue.sdk import Action, CollectingDispatcher, DomainDict, Event, SlotSet, Tracker

FULL = {("monday", "morning")}
BOOKINGS = {"B-77"}
UNKNOWN_PATIENTS = {"P-0000"}


class SurgeryDown(RuntimeError):
    """The surgery's own calendar does not answer."""


class ValidatePatientId(Action):
    """Runs after the format check of the domain; setting the slot to None refuses the value."""

    def name(self) -> str:
        return "validate_patient_id"

    async def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> list[Event]:
        if tracker.get_slot("patient_id") in UNKNOWN_PATIENTS:
            dispatcher.utter_message(response="utter_unknown_patient")
            return [SlotSet("patient_id", None)]
        return []


class FindOpening(Action):
    """Streams while it looks, so that the user sees that something happens."""

    def name(self) -> str:
        return "action_find_opening"

    async def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> list[Event]:
        day, part = tracker.get_slot("day"), tracker.get_slot("day_part")
        await dispatcher.stream_start()
        await dispatcher.stream_chunk(text="Looking for a free visit ")
        await dispatcher.stream_chunk(text=f"on {day} {part}.")
        await dispatcher.stream_end()
        if tracker.get_slot("specialty") == "surgery":
            raise SurgeryDown("the surgery's calendar does not answer")
        if (day, part) in FULL:
            return [SlotSet("opening_found", False), SlotSet("opening", None)]
        return [SlotSet("opening_found", True), SlotSet("opening", f"{day} {part}")]


class StoreBooking(Action):
    def name(self) -> str:
        return "action_store_booking"

    async def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> list[Event]:
        booking = {"specialty": tracker.get_slot("specialty"), "when": tracker.get_slot("opening")}
        return [SlotSet("booking", booking)]


class CancelBooking(Action):
    def name(self) -> str:
        return "action_cancel_booking"

    async def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> list[Event]:
        return [SlotSet("cancel_ok", tracker.get_slot("booking_ref") in BOOKINGS)]
