"""All invariants of a history; each is named after its class, and stated there."""

from __future__ import annotations

from semel.sim.checkers import acknowledgements, bound, compaction, leases, logs, producers, recovery
from semel.sim.checkers.checker import Checker
from semel.sim.copies import checkers as of_copies
from semel.sim.flows import checkers as of_flows
from semel.sim.groups import checkers as of_groups
from semel.sim.sinks import checkers as of_sinks
from semel.sim.transactions import checkers as of_transactions


def all_checkers() -> list[Checker]:
    """A fresh set for one seed. Where two of them fall at once, the first one names what is wrong."""
    return [
        compaction.NewestOfEachKeySurvives(),
        compaction.CompactionAddsNothing(),
        acknowledgements.AcknowledgedIsStored(),
        logs.NothingTwice(),
        logs.Order(),
        logs.DenseOffsets(),
        logs.OneValuePerOffset(),
        logs.HighWatermarkRises(),
        acknowledgements.RefusedIsNotStored(),
        producers.AnswersAreDefinite(),
        recovery.RecoveredStateEqualsReplay(),
        acknowledgements.RowsResumeExactly(),
        logs.LogStartRises(),
        producers.FenceHolds(),
        producers.GrantedOnce(),
        leases.LeaseOverForEver(),
        leases.LeaseLivesItsLength(),
        bound.LeaseRoomIsKept(),
        bound.BoundHolds(),
        bound.RefusedOnlyAtTheBound(),
        acknowledgements.InDoubtOnlyInSilence(),
        recovery.SoundDiskOpens(),
        acknowledgements.CommittedOffsetHolds(),
        recovery.HealedWorldFinishes(),
        recovery.WhatIsLeftIsAPrefix(),
        recovery.LostEndIsTold(),
        recovery.DamageIsNotCut(),
        recovery.RotBesideCostsNothing(),
        of_sinks.SinkLogSaysTheSame(),  # what is read amiss there goes wrong everywhere
        of_sinks.SinkDecidedIsStored(),
        of_sinks.SinkRowsOnce(),  # that none is missing at the end, too: of a decided row the other says so
        of_sinks.SinkOrder(),
        of_sinks.SinkAttemptsNotMixed(),
        of_sinks.SinkZombiesShutOut(),
        of_sinks.SinkTwinsShutOut(),
        of_sinks.SinkStopsAreRight(),
        of_flows.RecordedOrderNeverChanges(),
        of_flows.EachInputCountedOnce(),
        of_flows.NoTaskStartsFromUndecidedState(),
        of_flows.StageStateIsReplay(),
        of_flows.StageOutputIsReplay(),
        of_flows.FlowStopsAreRight(),
        of_copies.CopyIsSource(),
        of_copies.CopyRowsArePlanned(),
        of_copies.CopyZombiesShutOut(),
        of_copies.CopyIsNotTakenBack(),
        of_copies.CopyStopsAreRight(),
        of_groups.OneOwnerAGeneration(),
        of_groups.GenerationOnlyRises(),
        of_groups.OlderGenerationNeverCommits(),
        of_groups.CommittedPositionNeverLost(),
        of_groups.MemberInTimeStays(),
        of_groups.RestartKeepsMembers(),
        of_groups.GroupBecomesStable(),
        of_transactions.NoUncommittedRead(),
        of_transactions.EndedByItsOwn(),
        of_transactions.EpochRisesWithTheEnd(),
        of_transactions.MarkersFollowTheDecision(),
        of_transactions.LastStableOffsetMovesOn(),
        of_transactions.OffsetsFollowTheTransaction(),
        of_transactions.TransactionIsAtomic(),
        of_transactions.InputCountsOnce(),
        of_transactions.CommittedRowsStay(),
        of_transactions.HistoriesHaveNoAnomaly(),
        of_transactions.DecidedTransactionEnds(),
    ]
