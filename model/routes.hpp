// Which experts a run of tokens chose, layer by layer: recorded, replayed against caches, imposed on another run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/layers/router.hpp"

namespace k3 {

struct Routes {
  std::size_t layers = 0;          // that have experts
  std::size_t per_token = 0;       // experts a token chooses in each
  std::vector<std::uint32_t> ids;  // [tokens, layers, per_token], by falling weight

  std::size_t tokens() const { return layers * per_token == 0 ? 0 : ids.size() / (layers * per_token); }
  std::span<const std::uint32_t> at(std::size_t token, std::size_t layer) const {
    return {&ids[(token * layers + layer) * per_token], per_token};
  }
};

// Notes a row's choice at its place; `routes` has room for the token.
void record(std::span<const layers::Choice> chosen, std::size_t token, std::size_t layer, Routes& routes);

// Puts what was recorded in place of a row's choice, with weights that fall evenly and have the same sum. Tokens and layers beyond
// what was recorded begin again at the first, and a model of fewer experts takes ids modulo their number, the next free one where
// that is taken: less is then repeated by chance than by choice, but the run of choices stays that of the recording.
void impose(const Routes& routes, std::size_t token, std::size_t layer, std::size_t experts, std::vector<layers::Choice>& chosen);

}  // namespace k3
