"""Drives the machine of two replicas (`diana/replica`) over a real store, a real link and a real witness.

The same object serves the follower, whose journal it writes, and the leader, whose runner asks it what may leave. It
outlives the change from one to the other; going back is a new process, because nothing of a deposed leader may go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn, assert_never

import msgspec

from diana import __version__
from diana.adapters.replica_link.link import VERSION, ReplicaLink
from diana.adapters.replica_link.saved import DurableFile
from diana.adapters.replica_link.seeds import SeedFetcher
from diana.adapters.replica_link.witness import WitnessClient
from diana.adapters.tasks import end
from diana.errors import DianaError
from diana.model.layout import DataDir
from diana.model.trust.register import Copy, Register
from diana.node.ending import again
from diana.node.loop.store_thread import StoreThread
from diana.node.pair.follower_journal import FollowerJournal
from diana.node.pair.pair import Pair, Said, SeedOver, SeedReady, decode, encode, log_of, now_s
from diana.node.pair.shelf import Shelf, fill, packed
from diana.ports import Batch, Store
from diana.replica import messages as ms
from diana.replica.machine import Replica
from diana.replica.settings import ReplicaSettings
from diana.wire.pb import replica_pb2

ANSWERED_S = 0.3

_log = logging.getLogger("diana.standby")


class Replication:
    """`run` it; `leading` is done when this machine is to lead. Raises StoreFailed out of `run`."""

    def __init__(
        self,
        *,
        site: str,
        vo: str,
        machine: str,
        address: str,
        paths: DataDir,
        thread: StoreThread,
        file: DurableFile[Pair],
        pair: Pair,
        reopen: Callable[[], Store],
        witness_addresses: Callable[[], list[str]],
        settings: ReplicaSettings | None = None,
    ) -> None:
        """`reopen` opens the journal anew after a seed took its place."""
        self.site, self.machine, self.address = site, machine, address
        self.thread = thread
        self.pair = pair
        self._file = file
        store = thread.store
        witness = pair.witness.partition("@")[0]
        self.witness = WitnessClient(
            witness, vo, paths.keys, lambda: [where for where in (self._witness_at(), *witness_addresses()) if where]
        )
        log = log_of(store)
        self.replica = Replica(
            settings or ReplicaSettings(),
            Copy(machine, store.meta("replica_uuid")),
            pair.other,
            pair.saved,
            log,
            now_s(),
            witness=bool(witness),
        )
        self.leading: asyncio.Future[ms.Lead] = asyncio.get_running_loop().create_future()
        self.other_address = ""
        self.other_witness = ""
        """The other machine's witness, as it told on this stream."""
        self.offered = ""
        """The witness that the other machine is told to take up."""
        self.taken_up: Callable[[int], None] = lambda term: None
        """Told of each term after the first in which this machine leads."""
        self.hold: Callable[[bool], None] = lambda on: None
        self.deposed: Callable[[str], None] = step_down
        self._link: ReplicaLink | None = None
        self.journal = FollowerJournal(self, paths, SeedFetcher(site, vo, paths), reopen)
        """While this machine follows."""
        self._released = asyncio.Event()
        self._shelf = Shelf(log.last, lambda after: self.tell(ms.Holds(after)))
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams = 0
        self._answers: dict[int, asyncio.Future[str]] = {}
        self._failed: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

    # --- life ------------------------------------------------------------------------------------------

    def use(self, link: ReplicaLink) -> None:
        """The link whose `Ears` this is."""
        self._link = link

    async def run(self) -> None:
        """Run until cancelled, or until the store fails (raised)."""
        writing = asyncio.ensure_future(self.journal.run())
        try:
            self.tell(ms.Tick())
            both: tuple[asyncio.Future[Any], ...] = (writing, self._failed)
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for ended in both:
                if ended.done():
                    ended.result()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await end(writing, *self._tasks)
            await self.witness.close()

    def hello(self) -> Any:
        return replica_pb2.ReplicaHello(
            version=VERSION,
            machine=self.machine,
            release=__version__,
            address=self.address,
            witness=self.pair.witness or self.offered,
        )

    async def operate(self, make: Callable[[int], ms.ForceTakeover | ms.Promote | ms.RemoveStandby]) -> str:
        """An operator's event; empty when done, else why not."""
        number = max(self._answers, default=0) + 1
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self.tell(make(number))
            return await answer
        finally:
            self._answers.pop(number, None)

    # --- the leader's runner ---------------------------------------------------------------------------

    def appending(self, batch: Batch) -> Batch:
        """A transaction is about to be written: with the term it is written under; it is shipped meanwhile."""
        if not batch.records:
            return batch
        batch = msgspec.structs.replace(batch, term=self.replica.term)
        first = self._shelf.last + 1
        seq = self._shelf.last + len(batch.records)
        self._shelf.add(seq, batch.term, packed(batch))
        self.tell(ms.Appended(first, seq))
        return batch

    def written(self, seq: int) -> None:
        """Durable here."""
        self.tell(ms.Fsynced(seq))

    async def open(self, seq: int) -> None:
        """Wait until what rests on the records up to `seq` may leave; returns at that very moment."""
        while not self.replica.may_act(now_s(), seq):
            self._released.clear()
            self.tell(ms.Tick())  # A lease that ran out unnoticed would not be said anew.
            await self._released.wait()

    def others(self) -> tuple[str, ...]:
        """Addresses of the site's other machine, as far as it told any."""
        return (self.pair.address,) if self.pair.address else ()

    @property
    def other_up_now(self) -> bool:
        """There is a stream with the site's other machine."""
        return self._link is not None and self._link.up

    @property
    def in_step(self) -> bool:
        """This machine leads for sure: the other follows it now, and is in sync."""
        return self.replica.durability == 2 and self.replica.may_act(now_s(), 0)

    def offer_witness(self, witness: str) -> None:
        """Have the other machine take it up, which asks for a new stream."""
        self.offered = witness
        if self._link is not None:
            self._link.drop()

    def begin_anew_with(self, witness: str, register: Register) -> None:
        """Go on with that witness, which keeps `register`, by which this machine leads; the process begins anew."""
        saved = msgspec.structs.replace(self.pair.saved, term=register.term, led=register.term, register=register)
        self.save_pair(msgspec.structs.replace(self.pair, witness=witness, saved=saved))
        self.deposed(f"its witness is {witness} from now on")

    @property
    def durability(self) -> int:
        return self.replica.durability

    # --- ears of the link --------------------------------------------------------------------------------

    def other_up(self, hello: Any) -> None:
        self.other_address = hello.address
        if hello.address and hello.address != self.pair.address:
            self.save_pair(msgspec.structs.replace(self.pair, address=hello.address))
        self.other_witness = hello.witness
        if hello.witness and not self.pair.witness and self._led_by_the_other():
            # The machine that leads chose the witness; with it this machine begins anew.
            self.save_pair(msgspec.structs.replace(self.pair, witness=hello.witness))
            self.deposed(f"its witness is {hello.witness}")
        elif self._moved(hello.witness) and self._led_by_the_other():
            self.save_pair(msgspec.structs.replace(self.pair, witness=hello.witness))
        self._streams += 1
        if self.pair.lacks and not self.leading.done():
            self._begin(self._make_whole(self._streams))
        else:
            self.tell(ms.LinkUp())

    def _witness_at(self) -> str:
        return self.pair.witness.partition("@")[2]

    def _moved(self, witness: str) -> bool:
        """True if that is this machine's witness at another address."""
        site, _, where = witness.partition("@")
        return where not in ("", self._witness_at()) and site == self.pair.witness.partition("@")[0]

    def _led_by_the_other(self) -> bool:
        """True if the other machine leads, by what this machine knows itself."""
        saved = self.pair.saved
        if saved.register is None:
            return not saved.founder
        return not self.leading.done() and saved.register.leader != self.machine

    async def _make_whole(self, stream: int) -> None:
        """Fetch what is lacking; nothing is acknowledged on this stream before it is here."""
        await self.journal.make_whole(stream)
        if stream == self._streams:
            self.tell(ms.LinkUp())

    def other_gone(self) -> None:
        self._streams += 1
        self.tell(ms.LinkLost())

    def other_said(self, payload: bytes) -> None:
        try:
            said = decode(payload)
        except ValueError as error:
            _log.error("ignored what %s said: %s", self.pair.other, error)
            return
        match said:
            case SeedReady():
                self._begin(self.journal.seed(said, self._streams))
            case SeedOver():
                self.tell(ms.SeedEnded())
            case _:
                self.tell(ms.Received(said))

    # --- the machine -------------------------------------------------------------------------------------

    def tell(self, event: ms.Event) -> None:
        """Hand an event to the machine and do what it asks for, in order."""
        try:
            effects = self.replica.handle(event, now_s())
            for effect in effects:
                self._do(effect)
            if any(isinstance(effect, ms.Lead) for effect in effects):
                self.tell(ms.Holds(self._shelf.after))
            if (after := self.journal.dropped()) is not None:
                self.tell(ms.EntriesDropped(after))
        except Exception as error:
            if not self._failed.done():
                self._failed.set_exception(error)
            return
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.replica.deadline()
        if deadline is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, deadline - now_s()), self.tell, ms.Tick())

    def _do(self, effect: ms.Effect) -> None:
        match effect:
            case ms.SaveState(saved):
                self.save_pair(msgspec.structs.replace(self.pair, saved=saved))
            case ms.Say(message):
                self.say(message)
            case ms.Ship():
                self._ship(effect)
            case ms.StoreEntry(entry):
                self.journal.keep(entry)
            case ms.Seed(term, to):
                _log.info("%s is given a copy of the whole journal", to.machine)
                self.say(SeedReady(term, to.replica_uuid))
            case ms.AskWitness():
                self._begin(self._ask(effect))
            case ms.ReleaseUpTo():
                self._released.set()
            case ms.Lead():
                _log.info("%s leads %s in term %d", self.machine, self.site, effect.term)
                fill(self._shelf, self.thread.store)
                if not self.leading.done():
                    self.leading.set_result(effect)
            case ms.TermRose(term):
                _log.info("%s goes on in term %d, durability %d", self.machine, term, self.durability)
                self.taken_up(term)
            case ms.StepDown(reason):
                # The machine lets nothing leave any more; only the operator who ordered it is still answered.
                if self._answers:
                    asyncio.get_running_loop().call_later(ANSWERED_S, self.deposed, reason)
                else:
                    self.deposed(reason)
            case ms.HoldIntake(on):
                self.hold(on)
            case ms.Answered(request, error):
                answer = self._answers.get(request)
                if answer is not None and not answer.done():
                    answer.set_result(error)
            case _:
                assert_never(effect)

    def save_pair(self, pair: Pair) -> None:
        """Durable on return; StoreFailed."""
        self._file.write(pair)
        self.pair = pair

    def say(self, message: Said) -> None:
        """Say it to the other machine, at best effort."""
        if self._link is not None:
            self._link.say(encode(message))

    def end_stream(self) -> None:
        """End the stream with the other machine; entries not acknowledged on it never will be."""
        if self._link is not None:
            self._link.drop()
        self.other_gone()

    def follows_on(self, stream: int) -> bool:
        """True while that stream stands and this machine was not told to lead."""
        return stream == self._streams and not self.leading.done()

    def _ship(self, order: ms.Ship) -> None:
        for kept in self._shelf.between(order.after, order.up_to):
            self.say(
                ms.Append(
                    term=order.term,
                    to=order.to,
                    after=kept.after,
                    after_term=self.replica.log.term_at(kept.after),
                    seq=kept.seq,
                    of_term=kept.of_term,
                    payload=kept.payload,
                )
            )

    async def _ask(self, question: ms.AskWitness) -> None:
        try:
            found = await self.witness.touch(question.expect_term, question.register)
        except DianaError as error:
            _log.info("%s", error)
            if self._nothing_asked():
                self.save_pair(msgspec.structs.replace(self.pair, witness=""))
                self.deposed("its witness does not answer, so it goes without one until one does")
                return
            self.tell(ms.WitnessAway())
        else:
            self.tell(ms.WitnessSaid(found))

    def _nothing_asked(self) -> bool:
        """True if this founder asked for no term yet: then no register names anybody, and it needs no witness."""
        return self.pair.saved == ms.Saved(founder=True)

    def _begin(self, doing: Any) -> None:
        task = asyncio.ensure_future(doing)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)


def step_down(reason: str) -> NoReturn:
    """Act no more: this process becomes a new one, on the same data directory, that follows."""
    _log.warning("steps down: %s; starting anew as a follower", reason)
    again()
