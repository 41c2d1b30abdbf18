#include "parallel/plan_messages.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme {

using enum ActionKind;

bool is_send(ActionKind kind) {
  return kind == kSendActivation || kind == kSendGradient || kind == kSendTiedGradient ||
         kind == kSendTiedParameters;
}

bool is_receive(ActionKind kind) {
  return kind == kRecvActivation || kind == kRecvGradient || kind == kRecvTiedGradient ||
         kind == kRecvTiedParameters;
}

Action send_for(const Action& receive, int rank) {
  Action send{.unit = receive.unit, .micro_batch = receive.micro_batch, .peer = rank};
  switch (receive.kind) {
    case kRecvActivation:
      send.kind = kSendActivation;
      --send.unit;
      break;
    case kRecvGradient:
      send.kind = kSendGradient;
      ++send.unit;
      break;
    case kRecvTiedGradient:
      send.kind = kSendTiedGradient;
      break;
    default:
      send.kind = kSendTiedParameters;
  }
  return send;
}

PlanMessages::Lane PlanMessages::lane_of(int rank, const Action& a) {
  const int source = is_send(a.kind) ? rank : a.peer, destination = is_send(a.kind) ? a.peer : rank;
  switch (a.kind) {
    case kSendActivation:
      return {Way::kActivation, a.unit, source, destination};
    case kRecvActivation:
      return {Way::kActivation, a.unit - 1, source, destination};
    case kSendGradient:
      return {Way::kGradient, a.unit - 1, source, destination};
    case kRecvGradient:
      return {Way::kGradient, a.unit, source, destination};
    case kSendTiedGradient:
    case kRecvTiedGradient:
      return {Way::kTiedGradient, a.unit, source, destination};
    default:
      return {Way::kTiedParameters, a.unit, source, destination};
  }
}

bool PlanMessages::can_send(const Action& send, const SendingRank& from) const {
  const auto lane = lanes_.find(lane_of(from.rank, send));
  if (lane == lanes_.end()) return true;
  return lane->second.sent.places.size() <
         lane->second.asked.places.size() + static_cast<std::size_t>(from.send_window);
}

// Messages meet in order: what was entered last on one side must be what the other has at the same place.
std::optional<std::string> PlanMessages::disagreement(const Side& mine, const Side& other,
                                                      const char* doing) {
  const std::size_t last = mine.micro_batches.size() - 1;
  if (last >= other.micro_batches.size() || other.micro_batches[last] == mine.micro_batches[last]) {
    return std::nullopt;
  }
  return fmt::format("{} micro-batch {}, where rank {} (action {}) has micro-batch {}", doing,
                     mine.micro_batches[last], other.places[last].rank, other.places[last].position,
                     other.micro_batches[last]);
}

std::optional<std::string> PlanMessages::add_send(const Place& place, const Action& send) {
  Traffic& traffic = lanes_[lane_of(place.rank, send)];
  traffic.sent.micro_batches.push_back(send.micro_batch);
  traffic.sent.places.push_back(place);
  return disagreement(traffic.sent, traffic.asked, "sends");
}

std::optional<std::string> PlanMessages::add_receive(const Place& place, const Action& receive) {
  Traffic& traffic = lanes_[lane_of(place.rank, receive)];
  traffic.asked.micro_batches.push_back(receive.micro_batch);
  traffic.asked.places.push_back(place);
  return disagreement(traffic.asked, traffic.sent, "receives");
}

bool PlanMessages::has_arrived(int rank, const Action& receive) const {
  const auto lane = lanes_.find(lane_of(rank, receive));
  if (lane == lanes_.end()) return false;
  const auto& asked = lane->second.asked.micro_batches;
  // One that waits where it stands, before it is entered, is the next of its lane.
  const auto index = static_cast<std::size_t>(std::ranges::find(asked, receive.micro_batch) - asked.begin());
  return index < lane->second.sent.micro_batches.size();
}

bool PlanMessages::all_taken(int rank) const {
  return std::ranges::all_of(lanes_, [&](const auto& entry) {
    return std::get<2>(entry.first) != rank ||
           entry.second.asked.places.size() >= entry.second.sent.places.size();
  });
}

std::optional<PlanMessages::Place> PlanMessages::waiting_receive(int rank) const {
  for (const auto& [lane, traffic] : lanes_) {
    if (std::get<3>(lane) != rank || traffic.asked.places.size() <= traffic.sent.places.size()) continue;
    return traffic.asked.places[traffic.sent.places.size()];
  }
  return std::nullopt;
}

std::optional<PlanMessages::Unmatched> PlanMessages::unmatched_send() const {
  for (const auto& [lane, traffic] : lanes_) {
    const std::size_t asked = traffic.asked.places.size();
    if (traffic.sent.places.size() > asked) return Unmatched{traffic.sent.places[asked], std::get<3>(lane)};
  }
  return std::nullopt;
}

std::optional<PlanMessages::Unmatched> PlanMessages::unmatched_receive() const {
  for (const auto& [lane, traffic] : lanes_) {
    const std::size_t sent = traffic.sent.places.size();
    if (traffic.asked.places.size() > sent) return Unmatched{traffic.asked.places[sent], std::get<2>(lane)};
  }
  return std::nullopt;
}

}  // namespace trireme
