#include "model/trunk/trunk_stream.hpp"

#include <poll.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace k3::trunk {

using checkpoint::StreamedMatrix;
using experts::ReadProgress;

namespace {

// How soon a request that is withdrawn while its block is on the way is heard, in milliseconds. A block takes some 10 of a good
// drive.
constexpr int look_for_stop_ms = 50;

Error stopped() { return fail(ErrorCode::cancelled, "stopped while a block of the trunk was awaited"); }

}  // namespace

std::size_t TrunkStream::block_rows(const StreamedMatrix& matrix) const {
  constexpr std::size_t together = 64;  // how products cut their outputs
  return std::max<std::size_t>(1, block_bytes_ / matrix.row_bytes / together) * together;
}

Result<std::unique_ptr<TrunkStream>> TrunkStream::open(const std::vector<checkpoint::File>& files,
                                                       std::vector<StreamedMatrix> matrices, const TrunkStreamOptions& options,
                                                       const experts::ReaderFactory& make_reader) {
  std::unique_ptr<TrunkStream> stream(new TrunkStream);
  stream->block_bytes_ = options.block_bytes;
  stream->first_block_.push_back(0);
  std::uint64_t largest = 0;
  for (const StreamedMatrix& m : matrices) {
    const std::size_t rows = std::min(m.rows, stream->block_rows(m));
    largest = std::max(largest, rows * m.row_bytes);
    stream->first_block_.push_back(stream->first_block_.back() + (m.rows + rows - 1) / rows);
  }
  auto opened = experts::open_files(files, options.direct);
  if (!opened) return opened.error();
  stream->files_ = std::move(*opened);
  stream->replicas_ = stream->files_.replicas(options.clock);
  stream->slot_bytes_ = experts::align_up(largest) + experts::kAlignment;  // a block may begin anywhere in a sector, and end so
  stream->matrices_ = std::move(matrices);
  const std::size_t all = std::max<std::size_t>(2, stream->first_block_.back());
  stream->slots_.resize(std::clamp<std::size_t>(options.window_bytes / stream->slot_bytes_, 2, all));
  auto memory = experts::SlotMemory::make(stream->slots_.size() * stream->slot_bytes_);
  if (!memory) return memory.error();
  stream->memory_ = std::move(*memory);
  for (std::uint32_t i = 0; i < stream->slots_.size(); ++i) stream->slots_[i].slot = i;
  stream->clock_ = options.clock;
  auto reader = make_reader({stream->files_.fds, stream->memory_.data(), stream->slots_.size(), stream->slot_bytes_,
                             static_cast<unsigned>(stream->slots_.size()), options.load_threads});
  if (!reader) return reader.error();
  stream->reader_ = std::move(*reader);
  return stream;
}

TrunkStream::~TrunkStream() {
  if (!reader_) return;
  const auto ignore = [](experts::Completion&) {};
  while (reader_->in_flight() > 0) {
    reader_->wait();
    reader_->reap(ignore);
  }
}

Result<TrunkBlock> TrunkStream::wait(std::size_t matrix, std::size_t block, const std::stop_token& stop) {
  assert(block < blocks(matrix));
  const std::size_t id = first_block_[matrix] + block;
  if (in_use_ != nullptr) std::exchange(in_use_, nullptr)->state = State::free;
  reap();
  Slot* slot = find(id);
  for (bool asked = false;; asked = true) {
    // Read ahead in vain: what was wrong then may be right now, and whoever asks is told only what is wrong now.
    if (slot != nullptr && slot->error) std::exchange(slot, nullptr)->state = State::free;
    if (slot == nullptr) slot = fetch(id, stop);
    if (slot == nullptr) return stopped();
    read_ahead();
    if (slot->state == State::loading) {
      const auto begin = clock_();
      bool go_on = true;
      while (go_on && slot->state == State::loading) go_on = wait_for_any(stop);
      counters_.waiting += clock_() - begin;
      if (!go_on) return stopped();
    }
    if (!slot->error) break;
    if (!asked) continue;
    slot->state = State::free;
    return *slot->error;
  }
  in_use_ = slot;
  const Place at = place(id);
  return TrunkBlock{memory_.data() + slot->slot * slot_bytes_ + slot->data_at, at.first, at.rows};
}

// Begins to read a block that is not on its way, and goes on from there. Nothing: told to stop.
TrunkStream::Slot* TrunkStream::fetch(std::size_t id, const std::stop_token& stop) {
  ++counters_.misses;
  forget_far_from(id);
  Slot* const slot = make_room(id, stop);
  if (slot == nullptr) return nullptr;
  start(*slot, id);
  next_ = (id + 1) % first_block_.back();
  return slot;
}

TrunkStream::Place TrunkStream::place(std::size_t id) const {
  const auto after = std::upper_bound(first_block_.begin(), first_block_.end(), id);
  const auto matrix = static_cast<std::size_t>(after - first_block_.begin() - 1);
  const std::size_t rows = block_rows(matrices_[matrix]), first = (id - first_block_[matrix]) * rows;
  return {matrix, first, std::min(rows, matrices_[matrix].rows - first)};
}

TrunkStream::Slot* TrunkStream::find(std::size_t id) {
  const auto holds = [id](const Slot& slot) { return slot.state != State::free && slot.id == id; };
  const auto slot = std::find_if(slots_.begin(), slots_.end(), holds);
  return slot == slots_.end() ? nullptr : &*slot;
}

// What lies ahead of `id` by no more than the slots can hold will be used soon; the rest was read for a way not taken.
void TrunkStream::forget_far_from(std::size_t id) {
  const std::size_t all = first_block_.back();
  for (Slot& slot : slots_) {
    if (slot.state == State::ready && (slot.id + all - id) % all >= slots_.size()) slot.state = State::free;
  }
}

TrunkStream::Slot* TrunkStream::make_room(std::size_t id, const std::stop_token& stop) {
  for (;;) {
    Slot* farthest = nullptr;
    const std::size_t all = first_block_.back();
    for (Slot& slot : slots_) {
      if (slot.state == State::free) return &slot;
      if (slot.state != State::ready) continue;
      if (farthest == nullptr || (slot.id + all - id) % all > (farthest->id + all - id) % all) farthest = &slot;
    }
    if (farthest != nullptr) return farthest;
    if (!wait_for_any(stop)) return nullptr;
  }
}

void TrunkStream::read_ahead() {
  for (Slot& slot : slots_) {
    if (slot.state != State::free) continue;
    for (std::size_t looked = 0; find(next_) != nullptr; ++looked) {
      if (looked == slots_.size()) return;  // all blocks are there
      next_ = (next_ + 1) % first_block_.back();
    }
    start(slot, next_);
    next_ = (next_ + 1) % first_block_.back();
  }
  reader_->flush();
}

void TrunkStream::start(Slot& slot, std::size_t id) {
  const Place at = place(id);
  const StreamedMatrix& matrix = matrices_[at.matrix];
  const std::uint64_t begin = matrix.offset + at.first * matrix.row_bytes, end = begin + at.rows * matrix.row_bytes;
  slot.state = State::loading;
  slot.id = id;
  slot.error.reset();
  slot.window = {.file = matrix.file, .offset = experts::align_down(begin)};
  slot.window.length = experts::align_up(end) - slot.window.offset;
  slot.window.needed = end - slot.window.offset;
  slot.data_at = begin - slot.window.offset;
  slot.progress.begin(slot.window);
  slot.tried = 0;
  aim(slot);
  replicas_.choose(matrix.file, slot, slot.tried);
  submit(slot);
}

void TrunkStream::submit(Slot& slot) {
  replicas_.begin(slot);
  reader_->submit(slot);
}

void TrunkStream::aim(Slot& slot) {
  slot.offset = slot.window.offset + slot.progress.next_offset();
  slot.into = memory_.data() + slot.slot * slot_bytes_ + slot.progress.next_offset();
  slot.length = slot.progress.next_length();
}

void TrunkStream::finish(Slot& slot) {
  replicas_.end(slot);
  const ReadProgress::Outcome outcome = slot.progress.advance(slot.result);
  if (outcome == ReadProgress::Outcome::again) {
    aim(slot);
    submit(slot);
    return;
  }
  if (outcome != ReadProgress::Outcome::done) {
    replicas_.distrust(slot);
    if (!replicas_.all_tried(slot.window.file, slot.tried)) {
      slot.progress.begin(slot.window);
      aim(slot);
      replicas_.choose(slot.window.file, slot, slot.tried);
      submit(slot);
      return;
    }
  }
  ++counters_.reads;
  counters_.bytes += slot.progress.filled();
  if (outcome != ReadProgress::Outcome::done) slot.error = describe(slot, outcome);
  slot.state = State::ready;
}

std::size_t TrunkStream::reap() {
  const std::size_t count = reader_->reap([this](experts::Completion& completion) { finish(static_cast<Slot&>(completion)); });
  reader_->flush();
  return count;
}

// False: told to stop, and nothing has come meanwhile.
bool TrunkStream::wait_for_any(const std::stop_token& stop) {
  reader_->flush();
  if (!stop.stop_possible()) {
    reader_->wait();
    reap();
    return true;
  }
  while (reap() == 0) {
    if (stop.stop_requested()) return false;
    pollfd wake{reader_->wake_fd(), POLLIN, 0};
    if (::poll(&wake, 1, look_for_stop_ms) > 0) reader_->clear_wake();  // before looking: what comes after the look wakes us again
  }
  return true;
}

Error TrunkStream::describe(const Slot& slot, ReadProgress::Outcome outcome) const {
  const std::string& whose = matrices_[place(slot.id).matrix].name;
  return experts::read_error(whose, files_.paths[slot.file], slot.window, slot.progress, outcome, slot.result);
}

}  // namespace k3::trunk
