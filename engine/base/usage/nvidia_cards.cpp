#include "engine/base/usage/nvidia_cards.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "engine/base/numbers.h"

namespace gemel {
namespace {

// NVML's C interface, as its documentation has it: every function returns 0 for success.
using Card = void*;
struct Utilisation {
  unsigned gpu = 0, memory = 0;  // percent
};
constexpr std::size_t kNameBytes = 96;

}  // namespace

struct NvidiaCards::Library {
  void* handle = nullptr;
  int (*shutdown)() = nullptr;
  int (*get_name)(Card, char*, unsigned) = nullptr;
  int (*power)(Card, unsigned*) = nullptr;             // milliwatts
  int (*energy)(Card, unsigned long long*) = nullptr;  // millijoules
  int (*utilisation)(Card, Utilisation*) = nullptr;
  std::vector<Card> cards;

  ~Library() {
    if (shutdown) shutdown();
    if (handle) ::dlclose(handle);
  }
  template <class Function>
  Function find(const char* name, Function& into) {
    return into = reinterpret_cast<Function>(::dlsym(handle, name));
  }
  /// @return why there are no cards; empty if there are
  std::string open(const std::string& path) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return path + " is not installed";
    int (*init)() = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*by_index)(unsigned, Card*) = nullptr;
    if (!find("nvmlInit_v2", init) || !find("nvmlDeviceGetCount_v2", count) || !find("nvmlDeviceGetHandleByIndex_v2", by_index))
      return path + " is not NVIDIA's management library";
    if (const int status = init(); status != 0) return path + " does not start: error " + std::to_string(status);
    find("nvmlShutdown", shutdown);
    find("nvmlDeviceGetName", get_name);
    find("nvmlDeviceGetPowerUsage", power);
    find("nvmlDeviceGetTotalEnergyConsumption", energy);
    find("nvmlDeviceGetUtilizationRates", utilisation);
    unsigned found = 0;
    count(&found);
    for (unsigned i = 0; i < found; ++i)
      if (Card card = nullptr; by_index(i, &card) == 0) cards.push_back(card);
    return cards.empty() ? "there is no NVIDIA card" : "";
  }
};

NvidiaCards::NvidiaCards(const std::string& library) : library_(std::make_unique<Library>()), why_none_(library_->open(library)) {}
NvidiaCards::~NvidiaCards() = default;

int NvidiaCards::count() const { return static_cast<int>(library_->cards.size()); }

std::string NvidiaCards::name(int card) const {
  std::array<char, kNameBytes> text{};
  if (!library_->get_name || library_->get_name(library_->cards[at(card)], text.data(), kNameBytes - 1) != 0) return "NVIDIA card " + std::to_string(card);
  return text.data();
}

std::optional<double> NvidiaCards::watts(int card) const {
  unsigned milliwatts = 0;
  if (!library_->power || library_->power(library_->cards[at(card)], &milliwatts) != 0) return {};
  return 1e-3 * milliwatts;
}

std::optional<double> NvidiaCards::joules(int card) const {
  unsigned long long millijoules = 0;
  if (!library_->energy || library_->energy(library_->cards[at(card)], &millijoules) != 0) return {};
  return 1e-3 * static_cast<double>(millijoules);
}

std::optional<double> NvidiaCards::utilisation() const {
  std::optional<double> busiest;
  for (const Card card : library_->cards)
    if (Utilisation now; library_->utilisation && library_->utilisation(card, &now) == 0) busiest = std::max(busiest.value_or(0), 0.01 * now.gpu);
  return busiest;
}

}  // namespace gemel
