"""All invariants of a history."""

from __future__ import annotations

from semel.sim.checkers.acknowledged_is_stored import AcknowledgedIsStored
from semel.sim.checkers.answers_are_definite import AnswersAreDefinite
from semel.sim.checkers.base import Checker
from semel.sim.checkers.bound_holds import BoundHolds
from semel.sim.checkers.committed_offset_holds import CommittedOffsetHolds
from semel.sim.checkers.copy_is_not_taken_back import CopyIsNotTakenBack
from semel.sim.checkers.copy_is_source import CopyIsSource
from semel.sim.checkers.copy_rows_are_planned import CopyRowsArePlanned
from semel.sim.checkers.copy_stops_are_right import CopyStopsAreRight
from semel.sim.checkers.copy_zombies_shut_out import CopyZombiesShutOut
from semel.sim.checkers.damage_is_not_cut import DamageIsNotCut
from semel.sim.checkers.dense_offsets import DenseOffsets
from semel.sim.checkers.each_input_counted_once import EachInputCountedOnce
from semel.sim.checkers.fence_holds import FenceHolds
from semel.sim.checkers.flow_stops_are_right import FlowStopsAreRight
from semel.sim.checkers.granted_once import GrantedOnce
from semel.sim.checkers.healed_world_finishes import HealedWorldFinishes
from semel.sim.checkers.high_watermark_rises import HighWatermarkRises
from semel.sim.checkers.in_doubt_only_in_silence import InDoubtOnlyInSilence
from semel.sim.checkers.lease_lives_its_length import LeaseLivesItsLength
from semel.sim.checkers.lease_over_for_ever import LeaseOverForEver
from semel.sim.checkers.lease_room_is_kept import LeaseRoomIsKept
from semel.sim.checkers.log_start_rises import LogStartRises
from semel.sim.checkers.no_task_starts_from_undecided_state import NoTaskStartsFromUndecidedState
from semel.sim.checkers.nothing_twice import NothingTwice
from semel.sim.checkers.one_value_per_offset import OneValuePerOffset
from semel.sim.checkers.order import Order
from semel.sim.checkers.recorded_order_never_changes import RecordedOrderNeverChanges
from semel.sim.checkers.recovered_state_equals_replay import RecoveredStateEqualsReplay
from semel.sim.checkers.refused_is_not_stored import RefusedIsNotStored
from semel.sim.checkers.refused_only_at_the_bound import RefusedOnlyAtTheBound
from semel.sim.checkers.rot_beside_costs_nothing import RotBesideCostsNothing
from semel.sim.checkers.rows_resume_exactly import RowsResumeExactly
from semel.sim.checkers.sink_attempts_not_mixed import SinkAttemptsNotMixed
from semel.sim.checkers.sink_decided_is_stored import SinkDecidedIsStored
from semel.sim.checkers.sink_order import SinkOrder
from semel.sim.checkers.sink_rows_once import SinkRowsOnce
from semel.sim.checkers.sink_stops_are_right import SinkStopsAreRight
from semel.sim.checkers.sink_twins_shut_out import SinkTwinsShutOut
from semel.sim.checkers.sink_zombies_shut_out import SinkZombiesShutOut
from semel.sim.checkers.sound_disk_opens import SoundDiskOpens
from semel.sim.checkers.stage_output_is_replay import StageOutputIsReplay
from semel.sim.checkers.stage_state_is_replay import StageStateIsReplay
from semel.sim.checkers.what_is_left_is_a_prefix import WhatIsLeftIsAPrefix


def all_checkers() -> list[Checker]:
    """A fresh set for one seed."""
    return [
        AcknowledgedIsStored(),
        NothingTwice(),
        Order(),
        DenseOffsets(),
        OneValuePerOffset(),
        HighWatermarkRises(),
        RefusedIsNotStored(),
        AnswersAreDefinite(),
        RecoveredStateEqualsReplay(),
        RowsResumeExactly(),
        LogStartRises(),
        FenceHolds(),
        GrantedOnce(),
        LeaseOverForEver(),
        LeaseLivesItsLength(),
        LeaseRoomIsKept(),
        BoundHolds(),
        RefusedOnlyAtTheBound(),
        InDoubtOnlyInSilence(),
        SoundDiskOpens(),
        CommittedOffsetHolds(),
        HealedWorldFinishes(),
        WhatIsLeftIsAPrefix(),
        DamageIsNotCut(),
        RotBesideCostsNothing(),
        SinkDecidedIsStored(),
        SinkRowsOnce(),  # that none is missing at the end, too: of a decided row the other says so
        SinkOrder(),
        SinkAttemptsNotMixed(),
        SinkZombiesShutOut(),
        SinkTwinsShutOut(),
        SinkStopsAreRight(),
        RecordedOrderNeverChanges(),
        EachInputCountedOnce(),
        NoTaskStartsFromUndecidedState(),
        StageStateIsReplay(),
        StageOutputIsReplay(),
        FlowStopsAreRight(),
        CopyIsSource(),
        CopyRowsArePlanned(),
        CopyZombiesShutOut(),
        CopyIsNotTakenBack(),
        CopyStopsAreRight(),
    ]
