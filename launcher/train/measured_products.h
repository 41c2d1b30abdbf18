// The measured choices of a job's products with what they are good for: a card and a version of its library.
// They travel as JSON, to other ranks, into checkpoints and into the output folder.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/backend_products.h"

namespace trireme {

/// By name, as arithmetic_of() has them: {"cuBLASLt": "13.1.0", ...}.
using ProductFacts = std::map<std::string, std::string>;

struct MeasuredProducts {
  ProductFacts facts;    // of card and library
  ProductTable choices;  // empty: heuristics choose
  bool operator==(const MeasuredProducts&) const = default;
};

/// What the choices are good for, of all the facts of a rank.
ProductFacts product_facts(const ProductFacts& all);

/// With a checksum of its own.
nlohmann::json to_json(const MeasuredProducts& products);
/// Throws Error(kInvalidInput) saying what is wrong.
MeasuredProducts products_of(const nlohmann::json& json);

/// Whole or not at all.
void write_products(const std::filesystem::path& file, const MeasuredProducts& products);
/// Throws Error(kInvalidInput) with the path, what is wrong and what to do.
MeasuredProducts read_products(const std::filesystem::path& file);

/// "14 products measured, 3 of them faster than by the heuristics' choice, by up to 11.0 %".
std::string describe(const ProductTable& choices);
/// "bf16 NT [...] to fp32: 41.2 us by proposal 3 of 9 (id 66, ...), 47.0 us by the first: 12.3 % less".
std::string describe(const Product& product, const ProductChoice& choice);

}  // namespace trireme
