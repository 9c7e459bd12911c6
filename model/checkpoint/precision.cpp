#include "model/checkpoint/precision.hpp"

namespace k3::checkpoint {

unsigned bits(Precision precision) { return precision == Precision::int4 ? 4 : precision == Precision::int8 ? 8 : 16; }

BitsOf bits_of(std::string_view name, bool is_kda) {
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name == "lm_head.weight") return BitsOf::head;
  if (has(".self_attn.")) {
    for (const std::string_view end : {".f_a_proj.weight", ".f_b_proj.weight", ".b_proj.weight"}) {
      if (name.ends_with(end)) return BitsOf::released;
    }
    return is_kda ? BitsOf::most : BitsOf::mla;
  }
  return has(".mlp.") || has("shared_experts.") || has("routed_expert_") ? BitsOf::most : BitsOf::released;
}

Precision TrunkPrecision::of(BitsOf which) const {
  switch (which) {
    case BitsOf::released:
      break;
    case BitsOf::most:
      return most;
    case BitsOf::mla:
      return mla;
    case BitsOf::head:
      return head;
  }
  return Precision::bf16;
}

}  // namespace k3::checkpoint
