// Quantiles of estimates. On a log scale, an estimate is the median, and its standard deviation is half the distance
// between the quantiles one standard deviation below and above: the distribution is not symmetric, and never below 0.

import { isNumber } from "./draw.js";

// The quantile `z` standard deviations above the mean, in the field's unit.
export function quantile({ log1p_scale: offset }, mean, std, z) {
  if (!isNumber(offset)) return mean + z * std;
  return Math.max(0, (mean + offset) * Math.exp(z * logStd(mean, std, offset)) - offset);
}

// The standard deviation on the log scale. If the lower quantile was cut off at 0, it is computed from the upper quantile.
function logStd(mean, std, offset) {
  const median = mean + offset, ofUpper = Math.log((2 * std + offset) / median);
  return median * Math.exp(-ofUpper) < offset ? ofUpper : Math.asinh(std / median);
}
