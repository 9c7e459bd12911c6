#include "model/grammar/automaton.hpp"

#include <algorithm>
#include <map>

#include "model/grammar/id_map.hpp"

namespace k3::grammar {
namespace {

constexpr std::uint32_t nowhere = 0xffffffff;

// Numbers for pairs as they are met, and the list of those met.
class Pairs {
 public:
  explicit Pairs(AutomatonBudget& budget) : budget_(budget) {}
  std::uint32_t number(std::uint32_t a, std::uint32_t b) {
    const std::uint64_t key = (std::uint64_t{a} << 32) | b;
    if (const std::uint32_t known = map_.find(key); known != IdMap::none) return known;
    if (!budget_.take_state()) exhausted_ = true;
    const auto id = static_cast<std::uint32_t>(list_.size());
    map_.insert(key, id);
    list_.emplace_back(a, b);
    return id;
  }
  bool exhausted() const { return exhausted_; }
  std::size_t size() const { return list_.size(); }
  std::pair<std::uint32_t, std::uint32_t> operator[](std::size_t i) const { return list_[i]; }

 private:
  AutomatonBudget& budget_;
  IdMap map_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> list_;
  bool exhausted_ = false;
};

void add_edge(Automaton::State& state, char32_t first, char32_t last, std::uint32_t to) {
  if (!state.edges.empty() && state.edges.back().to == to && state.edges.back().last + 1 == first) {
    state.edges.back().last = last;
  } else {
    state.edges.push_back({first, last, to});
  }
}

}  // namespace

Automaton Automaton::all_strings() {
  State state;
  state.accepts = true;
  const Characters all = Characters::all();
  for (const auto& range : all.ranges()) state.edges.push_back({range.first, range.last, 0});
  return of({state});
}

Automaton Automaton::of(std::vector<State> states) {
  Automaton out;
  out.states_ = std::move(states);
  out.drop_dead_ends();
  return out;
}

Automaton Automaton::of_literals(std::span<const std::u32string> literals) {
  std::vector<State> states(1);
  std::vector<std::u32string_view> sorted(literals.begin(), literals.end());
  std::sort(sorted.begin(), sorted.end());
  for (const std::u32string_view literal : sorted) {
    std::uint32_t at = 0;
    for (const char32_t c : literal) {
      // Sorted: the edge taken last is the only one that can be shared.
      if (states[at].edges.empty() || states[at].edges.back().first != c) {
        states[at].edges.push_back({c, c, static_cast<std::uint32_t>(states.size())});
        states.emplace_back();
      }
      at = states[at].edges.back().to;
    }
    states[at].accepts = true;
  }
  return of(std::move(states));
}

// Runs both at once. `other` may be in no state at all: that is what excluding needs.
std::optional<Automaton> Automaton::product(const Automaton& other, bool excluding, AutomatonBudget& budget) const {
  Pairs pairs(budget);
  pairs.number(0, 0);
  std::vector<State> out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs.exhausted()) return std::nullopt;
    const auto [a, b] = pairs[i];
    State state;
    const bool other_accepts = b != nowhere && other.states_[b].accepts;
    state.accepts = states_[a].accepts && other_accepts != excluding;
    static const std::vector<Edge> no_edges;
    const std::vector<Edge>& others = b == nowhere ? no_edges : other.states_[b].edges;
    if (!budget.take_work(states_[a].edges.size() + others.size())) return std::nullopt;
    std::size_t k = 0;
    for (const Edge& edge : states_[a].edges) {
      char32_t next = edge.first;
      while (k < others.size() && others[k].last < next) ++k;
      for (std::size_t j = k; j < others.size() && others[j].first <= edge.last; ++j) {
        const char32_t first = std::max(next, others[j].first), last = std::min(edge.last, others[j].last);
        if (excluding && first > next) add_edge(state, next, first - 1, pairs.number(edge.to, nowhere));
        add_edge(state, first, last, pairs.number(edge.to, others[j].to));
        next = last + 1;
      }
      if (excluding && next <= edge.last) add_edge(state, next, edge.last, pairs.number(edge.to, nowhere));
    }
    out.push_back(std::move(state));
  }
  return of(std::move(out));
}

std::optional<Automaton> Automaton::both(const Automaton& other, AutomatonBudget& budget) const {
  return product(other, false, budget);
}
std::optional<Automaton> Automaton::without(const Automaton& other, AutomatonBudget& budget) const {
  return product(other, true, budget);
}

std::optional<Automaton> Automaton::of_length(std::uint32_t min, std::uint32_t max, AutomatonBudget& budget) const {
  if (min == 0 && max == unbounded) return *this;
  Pairs pairs(budget);  // of a state and a length, counted as far as it matters
  pairs.number(0, 0);
  std::vector<State> out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs.exhausted() || !budget.take_work(1)) return std::nullopt;
    const auto [at, length] = pairs[i];
    State state;
    state.accepts = states_[at].accepts && length >= min;
    if (length < max) {
      const std::uint32_t longer = max == unbounded ? std::min(length + 1, min) : length + 1;
      for (const Edge& edge : states_[at].edges) add_edge(state, edge.first, edge.last, pairs.number(edge.to, longer));
    }
    out.push_back(std::move(state));
  }
  return of(std::move(out));
}

// Keeps the first state, and what can be reached from it and leads to acceptance.
void Automaton::drop_dead_ends() {
  std::vector<std::vector<std::uint32_t>> from(states_.size());
  std::vector<std::uint32_t> pending;
  std::vector<char> useful(states_.size(), 0);
  for (std::uint32_t i = 0; i < states_.size(); ++i) {
    for (const Edge& edge : states_[i].edges) from[edge.to].push_back(i);
    if (states_[i].accepts) {
      useful[i] = 1;
      pending.push_back(i);
    }
  }
  while (!pending.empty()) {
    const std::uint32_t at = pending.back();
    pending.pop_back();
    for (const std::uint32_t before : from[at]) {
      if (useful[before] == 0) pending.push_back(before);
      useful[before] = 1;
    }
  }
  std::vector<std::uint32_t> renumbered(states_.size(), nowhere);
  std::vector<State> kept;
  for (std::uint32_t i = 0; i < states_.size(); ++i) {
    if (i != 0 && useful[i] == 0) continue;
    renumbered[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(states_[i]));
  }
  for (State& state : kept) {
    std::vector<Edge> edges;
    for (const Edge& edge : state.edges) {
      if (useful[edge.to] != 0) edges.push_back({edge.first, edge.last, renumbered[edge.to]});
    }
    state.edges = std::move(edges);
  }
  states_ = std::move(kept);
}

bool Automaton::empty() const { return !states_[0].accepts && states_[0].edges.empty(); }

bool Automaton::accepts(std::u32string_view text) const {
  std::uint32_t at = 0;
  for (const char32_t c : text) {
    const auto& edges = states_[at].edges;
    const auto edge = std::find_if(edges.begin(), edges.end(), [c](const Edge& e) { return c >= e.first && c <= e.last; });
    if (edge == edges.end()) return false;
    at = edge->to;
  }
  return states_[at].accepts;
}

bool Automaton::is_all() const {
  const State& first = states_[0];
  Characters stays;
  for (const Edge& edge : first.edges) {
    if (edge.to == 0) stays = stays | Characters::range(edge.first, edge.last);
  }
  return first.accepts && stays == Characters::all();
}

Expression Automaton::content(Rules& rules, Spelling spelling) const {
  using E = Expression;
  // Sets with characters of several bytes take many instructions, and most states have one such: all the characters that lead back
  // to the beginning of a search, say. Written once each, and since the rule stands last it costs no frame.
  std::map<std::pair<std::uint32_t, std::vector<Characters::Range>>, RuleIndex> wide;
  std::vector<RuleIndex> index(states_.size());
  for (RuleIndex& rule : index) rule = rules.reserve();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    std::map<std::uint32_t, Characters> by_target;
    for (const Edge& edge : states_[i].edges) by_target[edge.to] = by_target[edge.to] | Characters::range(edge.first, edge.last);
    std::vector<Expression> options;
    if (states_[i].accepts) options.emplace_back();
    for (const auto& [to, set] : by_target) {
      const auto written = [&, target = to, &members = set] {
        return E::sequence({character(members, spelling), E::rule(index[target])});
      };
      if (set.ranges().back().last <= 0x7f) {
        options.push_back(written());
        continue;
      }
      const auto [known, is_new] = wide.try_emplace({to, set.ranges()}, 0);
      if (is_new) known->second = rules.add(written());
      options.push_back(E::rule(known->second));
    }
    rules.define(index[i], Expression::choice(std::move(options)));
  }
  return Expression::rule(index[0]);
}

}  // namespace k3::grammar
