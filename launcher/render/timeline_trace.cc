#include "launcher/render/timeline_trace.h"

#include <set>
#include <utility>

#include "launcher/render/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json metadata(const char* what, int rank, int thread, Json arguments) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", std::move(arguments)}};
}

enum Thread : int { kCompute, kCommunication, kHost };
constexpr const char* kThreadNames[] = {"compute", "communication", "host (enqueues)"};

Json complete_event(const TimelineSpan& span, Thread thread) {
  Json event = {{"ph", "X"},
                {"name", span.label},
                {"cat", name(span.spent)},
                {"pid", span.rank},
                {"tid", static_cast<int>(thread)},
                {"ts", span.start_ms * 1e3},
                {"dur", (span.end_ms - span.start_ms) * 1e3}};
  if (span.micro_batch >= 0) event["args"] = {{"micro_batch", span.micro_batch}, {"chunk", span.chunk}};
  return event;
}

}  // namespace

std::string to_chrome_trace(const Timeline& timeline) {
  Json events = Json::array();
  std::set<std::pair<int, Thread>> threads;  // (rank, thread)
  const auto add = [&](const TimelineSpan& span, Thread thread) {
    threads.insert({span.rank, thread});
    events.push_back(complete_event(span, thread));
  };
  for (const TimelineSpan& span : timeline.spans)
    add(span, span.spent == TimeSpent::kExchange ? kCommunication : kCompute);
  for (const TimelineSpan& span : timeline.host_spans) add(span, kHost);
  for (int rank = 0; rank < timeline.num_ranks; ++rank) {
    events.push_back(metadata("process_name", rank, 0, {{"name", "rank " + std::to_string(rank)}}));
    events.push_back(metadata("process_sort_index", rank, 0, {{"sort_index", rank}}));
  }
  for (const auto& [rank, thread] : threads)
    events.push_back(metadata("thread_name", rank, thread, {{"name", kThreadNames[thread]}}));
  return json_text({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}) + "\n";
}

}  // namespace trireme
