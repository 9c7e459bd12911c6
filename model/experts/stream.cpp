#include "model/experts/stream.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>

namespace k3::experts {

struct Stream::OnWake {
  std::weak_ptr<Stream*> stream;
  void operator()(const boost::system::error_code&) const {
    const auto alive = stream.lock();
    if (!alive) return;
    Stream& s = **alive;
    s.watching_ = false;
    s.reader_->clear_wake();  // before looking: what finishes after the look must wake us again
    s.harvest();
  }
};

// request_stop() may run on any thread, and the waiter may be gone when the message arrives: so it carries a name, not a pointer.
struct Stream::OnStop {
  struct Arrived {
    std::weak_ptr<Stream*> stream;
    std::uint64_t waiter;
    void operator()() const {
      if (const auto alive = stream.lock()) (*alive)->stop_waiter(waiter);
    }
  };
  boost::asio::io_context* context;
  Arrived message;
  void operator()() const { boost::asio::post(*context, message); }
};

Stream::Waiter::Waiter(Stream& owner, std::optional<ExpertKey> wanted)
    : stream(&owner), key(wanted), id(owner.next_waiter_++), timer(owner.context_, boost::asio::steady_timer::time_point::max()) {
  owner.waiters_.push_back(this);
}

Stream::Waiter::~Waiter() {
  if (stream == nullptr) return;
  stream->waiters_.erase(std::find(stream->waiters_.begin(), stream->waiters_.end(), this));
  if (slot) stream->give_up(*slot);
}

void Stream::Waiter::wake() {
  woken = true;
  timer.cancel();
}

Stream::Stream(StreamParts parts, boost::asio::io_context& context)
    : layout_(std::move(parts.layout)),
      files_(std::move(parts.files)),
      replicas_(files_.replicas(parts.clock)),
      slot_bytes_(parts.slot_bytes),
      shape_(parts.shape),
      context_(context),
      memory_(std::move(parts.memory)),
      loads_(parts.slots),
      pool_(parts.slots, layout_.first_layer, layout_.layers, layout_.experts),
      reader_(std::move(parts.reader)),
      clock_(parts.clock),
      wake_(context, reader_->wake_fd()),
      self_(std::make_shared<Stream*>(this)) {
  waiters_.reserve(16);
  for (Load& load : loads_) load.reads = std::vector<Read>(most_reads(slot_bytes_, shape_.bytes));
}

Stream::~Stream() {
  self_.reset();
  for (Waiter* waiter : waiters_) waiter->stream = nullptr;
  wake_.release();  // the reader's descriptor, not ours to close
  const auto ignore = [](Completion&) {};
  while (reader_->in_flight() > 0) {
    reader_->wait();
    reader_->reap(ignore);
  }
}

void Stream::request(std::span<const ExpertKey> keys, std::span<const float> worth) {
  assert(std::all_of(keys.begin(), keys.end(), [this](ExpertKey key) { return layout_.contains(key); }));
  pool_.set_wishes(keys, worth);
  harvest();
}

void Stream::guess(std::span<const ExpertKey> keys, std::size_t at_once) {
  assert(std::all_of(keys.begin(), keys.end(), [this](ExpertKey key) { return layout_.contains(key); }));
  pool_.set_guesses(keys);
  guesses_at_once_ = at_once;
  harvest();
}

boost::asio::awaitable<Result<Lease>> Stream::acquire(ExpertKey key, std::stop_token stop) {
  if (!layout_.contains(key)) co_return fail(ErrorCode::internal, "there is no such expert");
  if (stop.stop_requested()) co_return fail(ErrorCode::cancelled, "stopped before an expert was awaited");
  harvest();
  pool_.consume(key);
  if (const auto slot = pool_.find(key); slot && pool_.state(*slot) != SlotPool::State::loading) {
    pool_.pin(*slot);
    co_return lease(*slot);
  }
  Waiter waiter(*this, key);
  const OnStop message{&context_, {self_, waiter.id}};
  const std::stop_callback<OnStop> on_stop(stop, message);
  boost::system::error_code ignored;
  auto token = boost::asio::redirect_error(boost::asio::use_awaitable, ignored);
  for (;;) {
    waiter.woken = false;
    if (waiter.error) co_return std::move(*waiter.error);
    if (waiter.cancelled) co_return fail(ErrorCode::cancelled, "stopped while an expert was awaited");
    if (!waiter.slot) waiter.slot = claim(key);
    harvest();
    if (waiter.slot && pool_.state(*waiter.slot) != SlotPool::State::loading) {
      const std::size_t slot = *waiter.slot;
      waiter.slot.reset();  // its pin is the lease's now
      co_return lease(slot);
    }
    if (waiter.woken) continue;
    co_await waiter.timer.async_wait(token);
    if (waiter.stream == nullptr) co_return fail(ErrorCode::cancelled, "the expert stream was closed");
  }
}

bool Stream::ready(ExpertKey key) const {
  const auto slot = pool_.find(key);
  return slot && pool_.state(*slot) != SlotPool::State::loading;
}

boost::asio::awaitable<void> Stream::drain() {
  pool_.set_wishes({}, {});
  Waiter waiter(*this, std::nullopt);
  boost::system::error_code ignored;
  auto token = boost::asio::redirect_error(boost::asio::use_awaitable, ignored);
  harvest();
  while (waiter.stream != nullptr && open_reads_ > 0) co_await waiter.timer.async_wait(token);
}

// A slot for `key` with a pin of ours, loaded or on its way. None: every slot is busy; whoever frees one wakes those without.
std::optional<std::size_t> Stream::claim(ExpertKey key) {
  auto slot = pool_.find(key);
  if (!slot) {
    slot = pool_.take(key, SlotPool::Urgency::demand);
    if (!slot) return std::nullopt;
    start_load(*slot, key);
  }
  pool_.pin(*slot);
  return slot;
}

Lease Stream::lease(std::size_t slot) {
  Load& load = loads_[slot];
  ++(load.fresh ? counters_.misses : counters_.hits);
  if (load.fresh && load.guessed) ++counters_.guesses_used;
  load.fresh = false;
  return make_lease(slot, load.bytes);
}

void Stream::give_up(std::size_t slot) {
  pool_.unpin(slot);
  if (pool_.parked(slot)) ++counters_.parked;
  if (pool_.state(slot) == SlotPool::State::ready) wake_slotless();
}

void Stream::release(std::size_t slot) {
  give_up(slot);
  harvest();
}

void Stream::start_wishes() {
  const auto slotless = [](const Waiter* waiter) { return waiter->key && !waiter->slot; };
  if (std::any_of(waiters_.begin(), waiters_.end(), slotless)) return;  // who waits comes before who will
  while (queue_.empty() && reader_->in_flight() < shape_.depth) {
    const auto key = pool_.next_wish();
    if (!key) break;
    const auto slot = pool_.take(*key, SlotPool::Urgency::wish);
    if (!slot) return;
    start_load(*slot, *key);
    submit_queued();
  }
  start_guesses();
}

// Only what is asked for may fill the drive's queue: a guess in flight is what a wrong one costs.
void Stream::start_guesses() {
  while (queue_.empty() && open_reads_ < guesses_at_once_) {
    const auto key = pool_.next_guess();
    if (!key) return;
    const auto slot = pool_.take(*key, SlotPool::Urgency::guess);
    if (!slot) return;
    start_load(*slot, *key);
    loads_[*slot].guessed = true;
    ++counters_.guesses;
    submit_queued();
  }
}

void Stream::start_load(std::size_t slot, ExpertKey key) {
  const WindowPlan plan = plan_windows(layout_.places[layout_.index(key)]);
  assert(plan.bytes <= slot_bytes_);
  Load& load = loads_[slot];
  load.fresh = true;
  load.guessed = false;
  load.error.reset();
  const auto* base = reinterpret_cast<const std::uint8_t*>(memory_.data() + slot * slot_bytes_);
  load.bytes = {base + plan.part_at[0], base + plan.part_at[1], base + plan.part_at[2],
                base + plan.part_at[3], base + plan.part_at[4], base + plan.part_at[5]};
  load.pending = 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    for (std::uint64_t from = 0; from < plan.windows[i].length;) {
      Read& read = load.reads[load.pending++];
      read.window = piece_of(plan.windows[i], from, shape_.bytes);
      from += read.window.length;
      read.progress.begin(read.window);
      read.slot = static_cast<std::uint32_t>(slot);
      read.fd = -1;  // a copy is chosen when it is sent
      read.tried = 0;
      aim(read);
      queue_.push(read);
      if (open_reads_++ == 0) reading_since_ = clock_();
    }
  }
}

void Stream::aim(Read& read) const {
  const std::uint64_t within = read.progress.next_offset();
  read.offset = read.window.offset + within;
  read.into = memory_.data() + read.slot * slot_bytes_ + read.window.at + within;
  read.length = read.progress.next_length();
}

// Everything that happens without anyone's asking. It never runs a coroutine: those it wakes are resumed by the event loop.
void Stream::harvest() {
  const auto done = [this](Completion& completion) { finish(static_cast<Read&>(completion)); };
  reader_->reap(done);
  submit_queued();
  start_wishes();
  reader_->flush();
  watch();
  if (open_reads_ > 0) return;
  for (Waiter* waiter : waiters_) {
    if (!waiter->key) waiter->wake();
  }
}

void Stream::finish(Read& read) {
  Load& load = loads_[read.slot];
  replicas_.end(read);
  const ReadProgress::Outcome outcome = read.progress.advance(read.result);
  if (outcome == ReadProgress::Outcome::again) {
    aim(read);
    queue_.push(read);
    return;
  }
  if (outcome != ReadProgress::Outcome::done && turn_to_another_copy(read, outcome)) return;
  if (outcome != ReadProgress::Outcome::done && !load.error) load.error = describe(read, outcome);
  ++counters_.reads;
  counters_.bytes += read.progress.filled();
  if (--open_reads_ == 0) counters_.reading += clock_() - reading_since_;
  // Other windows of a failed expert are waited for: the slot is not free while anything writes into it.
  if (--load.pending == 0) complete(read.slot);
}

// Once each. What came of the window so far is read again: it is the failing drive's.
bool Stream::turn_to_another_copy(Read& read, ReadProgress::Outcome outcome) {
  replicas_.distrust(read);
  if (replicas_.all_tried(read.window.file, read.tried)) return false;
  spdlog::warn("{}; reading another copy", describe(read, outcome).describe());
  read.progress.begin(read.window);
  read.fd = -1;
  aim(read);
  queue_.push(read);
  return true;
}

void Stream::complete(std::size_t slot) {
  const Load& load = loads_[slot];
  const bool good = !load.error;
  if (good) {
    pool_.loaded(slot);
  } else {
    ++counters_.errors;
    pool_.consume(pool_.key(slot));  // or its wish would start it again at once, and for ever
    pool_.failed(slot);
  }
  for (Waiter* waiter : waiters_) {
    if (waiter->slot != slot) continue;
    if (!good) {
      waiter->error = load.error;
      waiter->slot.reset();
    }
    waiter->wake();
  }
  if (pool_.pins(slot) == 0) wake_slotless();
}

void Stream::submit_queued() {
  while (!queue_.empty() && reader_->in_flight() < shape_.depth) {
    Read& read = static_cast<Read&>(*queue_.pop());
    if (read.fd < 0) replicas_.choose(read.window.file, read, read.tried);
    replicas_.begin(read);
    reader_->submit(read);
  }
}

// The event loop watches only while reads are in flight, so that it can run out of work when there is none.
void Stream::watch() {
  if (reader_->in_flight() == 0) {
    if (watching_) wake_.cancel();
    return;
  }
  if (watching_) return;
  watching_ = true;
  wake_.async_wait(boost::asio::posix::stream_descriptor::wait_read, OnWake{self_});
}

void Stream::wake_slotless() {
  for (Waiter* waiter : waiters_) {
    if (waiter->key && !waiter->slot) waiter->wake();
  }
}

void Stream::stop_waiter(std::uint64_t id) {
  for (Waiter* waiter : waiters_) {
    if (waiter->id != id) continue;
    waiter->cancelled = true;
    waiter->wake();
  }
}

Error Stream::describe(const Read& read, ReadProgress::Outcome outcome) const {
  const ExpertKey key = pool_.key(read.slot);
  const std::string whose = "expert " + std::to_string(key.expert) + " of layer " + std::to_string(key.layer);
  return read_error(whose, files_.paths[read.file], read.window, read.progress, outcome, read.result);
}

}  // namespace k3::experts
