#include "parallel/plan/plan_messages.h"

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

std::string PlanMessages::Letter::to_string() const {
  if (micro_batch < 0) return fmt::format("what concerns unit {}", unit);
  return fmt::format("micro-batch {} of unit {}", micro_batch, unit);
}

PlanMessages::Way PlanMessages::way_of(int rank, const Action& a) {
  const int source = is_send(a.kind) ? rank : a.peer, destination = is_send(a.kind) ? a.peer : rank;
  switch (a.kind) {
    case kSendActivation:
    case kRecvActivation:
      return {What::kActivations, source, destination};
    case kSendGradient:
    case kRecvGradient:
      return {What::kGradients, source, destination};
    default:
      return {What::kTied, source, destination};
  }
}

PlanMessages::Letter PlanMessages::letter_of(int rank, const Action& a) {
  const Action send = is_send(a.kind) ? a : send_for(a, rank);
  return {send.kind, send.unit, send.micro_batch};
}

bool PlanMessages::can_send(const Action& send, const SendingRank& from) const {
  const auto way = ways_.find(way_of(from.rank, send));
  if (way == ways_.end()) return true;
  const auto waiting = way->second.not_asked.find({send.kind, send.unit});
  return waiting == way->second.not_asked.end() || waiting->second < from.send_window;
}

// Messages meet in order: what was entered last on one side must be what the other has at the same place.
std::optional<std::string> PlanMessages::disagreement(const Side& mine, const Side& other,
                                                      const char* doing) {
  const std::size_t last = mine.letters.size() - 1;
  if (last >= other.letters.size() || other.letters[last] == mine.letters[last]) return std::nullopt;
  return fmt::format("{} {}, where rank {} (action {}) has {}", doing, mine.letters[last].to_string(),
                     other.places[last].rank, other.places[last].position, other.letters[last].to_string());
}

std::optional<std::string> PlanMessages::add_send(const Place& place, const Action& send) {
  Traffic& traffic = ways_[way_of(place.rank, send)];
  traffic.sent.letters.push_back(letter_of(place.rank, send));
  traffic.sent.places.push_back(place);
  ++traffic.not_asked[{send.kind, send.unit}];
  return disagreement(traffic.sent, traffic.asked, "sends");
}

std::optional<std::string> PlanMessages::add_receive(const Place& place, const Action& receive) {
  Traffic& traffic = ways_[way_of(place.rank, receive)];
  const Letter& letter = traffic.asked.letters.emplace_back(letter_of(place.rank, receive));
  traffic.asked.places.push_back(place);
  --traffic.not_asked[{letter.sent_by, letter.unit}];
  return disagreement(traffic.asked, traffic.sent, "receives");
}

bool PlanMessages::has_arrived(int rank, const Action& receive) const {
  const auto way = ways_.find(way_of(rank, receive));
  if (way == ways_.end()) return false;
  const std::vector<Letter>& asked = way->second.asked.letters;
  // Most likely one of the last. One that waits where it stands, before it is entered, is the next of its
  // way.
  const auto from_back = std::find(asked.rbegin(), asked.rend(), letter_of(rank, receive));
  const auto place =
      from_back == asked.rend() ? asked.size() : static_cast<std::size_t>(asked.rend() - from_back) - 1;
  return place < way->second.sent.letters.size();
}

bool PlanMessages::all_taken(int rank) const {
  return std::ranges::all_of(ways_, [&](const auto& entry) {
    return entry.first.source != rank || entry.second.asked.places.size() >= entry.second.sent.places.size();
  });
}

std::optional<PlanMessages::Place> PlanMessages::waiting_receive(int rank) const {
  for (const auto& [way, traffic] : ways_) {
    if (way.destination != rank || traffic.asked.places.size() <= traffic.sent.places.size()) continue;
    return traffic.asked.places[traffic.sent.places.size()];
  }
  return std::nullopt;
}

std::optional<PlanMessages::Unmatched> PlanMessages::unmatched_send() const {
  for (const auto& [way, traffic] : ways_) {
    const std::size_t asked = traffic.asked.places.size();
    if (traffic.sent.places.size() > asked) return Unmatched{traffic.sent.places[asked], way.destination};
  }
  return std::nullopt;
}

std::optional<PlanMessages::Unmatched> PlanMessages::unmatched_receive() const {
  for (const auto& [way, traffic] : ways_) {
    const std::size_t sent = traffic.sent.places.size();
    if (traffic.asked.places.size() > sent) return Unmatched{traffic.asked.places[sent], way.source};
  }
  return std::nullopt;
}

}  // namespace trireme
