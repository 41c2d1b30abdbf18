// The keys of a job that stand for the fields that libraries speak of: the one place that knows both.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// Of a field of EngineOptions: "zero" -> "parallel.zero", "pipeline.cut" -> "parallel.pipeline_cut".
std::string key_of(std::string_view field);

/// A library's message with keys in place of "EngineOptions::zero" and the like.
std::string with_keys(std::string_view message);

}  // namespace trireme
