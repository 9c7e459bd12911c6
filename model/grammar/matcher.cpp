#include "model/grammar/matcher.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/grammar/program.hpp"
#include "model/grammar/state_cache.hpp"

namespace k3::grammar {
namespace {

using Purpose = StateCache::Purpose;

// Of one answer and its copies; where it is used up, what leads on from the present state is worked out anew.
constexpr std::size_t cache_memory = std::size_t{16} << 20;

void set_bit(std::uint64_t* bits, TokenId id, std::uint64_t value) {
  bits[static_cast<std::size_t>(id) / 64] |= value << (id % 64);
}

// One walk through the spellings: a beginning that leads nowhere takes all that begin with it along.
class MaskWalk {
 public:
  MaskWalk(const std::shared_ptr<const Grammar>& grammar, const TokenTrie& trie, std::shared_ptr<StateCache>& cache, StateId& state)
      : grammar_(grammar), trie_(trie), cache_(cache), state_(state), path_(trie.longest() + 1) {}

  // Adds to `bits` the tokens after which the distance to the end is below `limit`.
  void run(std::vector<std::uint64_t>& bits, std::uint32_t limit) {
    const auto nodes = trie_.nodes();
    const TokenId* const tokens = trie_.tokens().data();
    path_[0] = {state_, cache_->row_of(state_)};
    for (std::uint32_t i = 0; i < nodes.size();) {
      const TokenTrie::Node& node = nodes[i];
      if (i % checked_every == 0 && cache_->full()) renew(node.depth);
      const StateId to = next(path_[node.depth - 1U], node.byte);
      if (to == StateCache::dead) {
        i = node.skip;
        continue;
      }
      ++i;
      path_[node.depth] = {to, cache_->row_of(to)};
      // Every state that is not dead can end, so that only a limit has to be looked up.
      if (limit != Finish::never && cache_->finish(to) >= limit) continue;
      // None or one token ends here, as unpredictably as a coin falls: the bit is set without asking. Equal spellings are rare.
      const std::uint32_t first = node.first_token, count = (&node + 1)->first_token - first;
      set_bit(bits.data(), tokens[first], count & 1);
      for (std::uint32_t t = 0; count > 1 && t < count; ++t) set_bit(bits.data(), tokens[first + t], 1);
    }
    add_control_tokens(bits, limit);
  }

 private:
  static constexpr std::uint32_t checked_every = 256;

  struct Step {
    StateId state = StateCache::dead;
    std::uint32_t row = StateCache::no_row;
  };

  StateId next(const Step& from, std::uint8_t byte) {
    if (from.row != StateCache::no_row) {
      if (const StateId to = cache_->known_next(from.row, byte); to != StateCache::unknown_next) return to;
    }
    return cache_->next(from.state, byte);
  }

  void add_control_tokens(std::vector<std::uint64_t>& bits, std::uint32_t limit) {
    const Program& program = grammar_->program();
    for (std::uint32_t i = 0; i < program.tokens.size(); ++i) {
      const TokenId id = program.tokens[i];
      const StateId to = cache_->next(path_[0].state, first_token + i);
      if (to != StateCache::dead && cache_->finish(to) < limit && static_cast<std::size_t>(id) < trie_.vocabulary())
        set_bit(bits.data(), id, 1);
    }
  }

  // In the middle of a walk too: a hostile grammar may make a state for every spelling.
  void renew(std::size_t depth) {
    auto fresh = std::make_shared<StateCache>(grammar_, trie_.longest(), cache_->memory());
    for (std::size_t d = 0; d < depth; ++d) {
      path_[d].state = cache_->copy_to(*fresh, path_[d].state);
      path_[d].row = fresh->row_of(path_[d].state);
    }
    state_ = path_[0].state;
    cache_ = std::move(fresh);
  }

  const std::shared_ptr<const Grammar>& grammar_;
  const TokenTrie& trie_;
  std::shared_ptr<StateCache>& cache_;
  StateId& state_;
  std::vector<Step> path_;  // [bytes so far]
};

}  // namespace

Matcher::Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      cache_(std::make_shared<StateCache>(grammar_, trie_->longest(), cache_memory)),
      state_(cache_->start()) {}

void Matcher::renew_if_full() {
  if (!cache_->full()) return;
  auto fresh = std::make_shared<StateCache>(grammar_, trie_->longest(), cache_->memory());
  state_ = cache_->copy_to(*fresh, state_);
  cache_ = std::move(fresh);
}

std::span<const std::uint64_t> Matcher::allowed() { return mask(false); }
std::span<const std::uint64_t> Matcher::allowed_towards_end() { return mask(true); }

std::span<const std::uint64_t> Matcher::mask(bool towards_end) {
  renew_if_full();
  const Purpose purpose = towards_end ? Purpose::towards_end : Purpose::any;
  // The typical state is as far from its end only where no count differs, so it serves for the first purpose alone.
  StateId state = towards_end ? state_ : cache_->typical(state_);
  if (const auto* known = cache_->mask(state, purpose)) return *known;
  std::vector<std::uint64_t> bits((trie_->vocabulary() + 63) / 64);
  const std::uint32_t limit = towards_end ? cache_->finish(state_) : Finish::never;
  auto cache = cache_;
  MaskWalk(grammar_, *trie_, cache, state).run(bits, limit);
  if (cache != cache_) {
    state_ = cache_->copy_to(*cache, state_);
    cache_ = std::move(cache);
  }
  std::vector<std::uint64_t>& kept = cache_->new_mask(state, purpose);
  kept = std::move(bits);
  return kept;
}

bool Matcher::allows(TokenId id) { return after(id) != StateCache::dead; }

bool Matcher::accept(TokenId id) {
  const StateId to = after(id);
  if (to == StateCache::dead) return false;
  state_ = to;
  return true;
}

StateId Matcher::after(TokenId id) {
  renew_if_full();
  const auto& controls = grammar_->program().tokens;
  if (id < 0 || static_cast<std::size_t>(id) >= trie_->vocabulary()) return StateCache::dead;
  StateId to = state_;
  const auto control = std::lower_bound(controls.begin(), controls.end(), id);
  if (control != controls.end() && *control == id) {
    to = cache_->next(to, first_token + static_cast<Symbol>(control - controls.begin()));
    if (to != StateCache::dead) return to;
    to = state_;
  }
  const std::string_view spelling = trie_->spelling(id);
  if (spelling.empty()) return StateCache::dead;
  for (const char c : spelling) {
    to = cache_->next(to, static_cast<unsigned char>(c));
    if (to == StateCache::dead) break;
  }
  return to;
}

bool Matcher::complete() const { return cache_->complete(state_); }
std::uint32_t Matcher::shortest_finish() const { return cache_->finish(state_); }

}  // namespace k3::grammar
