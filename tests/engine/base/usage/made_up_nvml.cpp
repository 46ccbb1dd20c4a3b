// A management library of two cards: the first counts its energy, 5 J more at each question; the second, an older one, tells only its power of 40 W.
// Tests load it in place of NVIDIA's.
#include <cstdint>
#include <cstring>

namespace {

unsigned long long counted = 1'000'000;  // millijoules

std::uintptr_t index_of(void* card) { return reinterpret_cast<std::uintptr_t>(card) - 1; }

constexpr int kNotSupported = 3;

}  // namespace

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** card) {
  *card = reinterpret_cast<void*>(std::uintptr_t{index} + 1);
  return 0;
}
int nvmlDeviceGetName(void* card, char* name, unsigned length) {
  std::strncpy(name, index_of(card) == 0 ? "New Card" : "Old Card", length);
  return 0;
}
int nvmlDeviceGetPowerUsage(void* card, unsigned* milliwatts) {
  *milliwatts = index_of(card) == 0 ? 300'000 : 40'000;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* card, unsigned long long* millijoules) {
  if (index_of(card) != 0) return kNotSupported;
  *millijoules = counted += 5'000;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* card, unsigned* gpu_and_memory) {
  gpu_and_memory[0] = index_of(card) == 0 ? 90 : 10;
  gpu_and_memory[1] = 0;
  return 0;
}
}
