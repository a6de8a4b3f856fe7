'use strict';
// Each figure gets boxes to hide lines, and a reading line that follows the pointer or the arrow keys.
for (const figure of document.querySelectorAll('figure')) {
  const chart = JSON.parse(figure.querySelector('script').textContent);
  const drawing = figure.querySelector('svg');
  const lines = [...drawing.querySelectorAll('g[data-series]')];
  const reading = figure.querySelector('output');
  const ruler = drawing.querySelector('.ruler');
  const boxes = document.createElement('fieldset');
  const legend = document.createElement('legend');
  legend.textContent = 'Shown';
  boxes.append(legend);
  lines.forEach((line, number) => {
    const label = document.createElement('label');
    const box = document.createElement('input');
    box.type = 'checkbox';
    box.checked = true;
    box.addEventListener('change', () => line.classList.toggle('off', !box.checked));
    label.append(box, ' ' + chart.series[number].name);
    boxes.append(label);
  });
  drawing.after(boxes);
  let at = 0;
  const show = (index) => {
    at = Math.max(0, Math.min(chart.sizes.length - 1, index));
    const { size, x } = chart.sizes[at];
    ruler.setAttribute('x1', x);
    ruler.setAttribute('x2', x);
    ruler.classList.remove('off');
    const parts = chart.series.filter((_, number) => !lines[number].classList.contains('off'))
      .map((series) => [series, series.points.find((point) => point[0] === size)])
      .filter(([, point]) => point)
      .map(([series, point]) => series.name + ' ' + (100 * point[1]).toFixed(2) + ' %' +
        (point[2] ? ' ± ' + (100 * point[2]).toFixed(2) : ''));
    reading.textContent = size.toLocaleString('en') + ': ' + parts.join(', ');
  };
  drawing.tabIndex = 0;
  drawing.addEventListener('pointermove', (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse());
    const far = (index) => Math.abs(chart.sizes[index].x - point.x);
    show(chart.sizes.map((_, index) => index).reduce((best, index) => (far(index) < far(best) ? index : best), 0));
  });
  drawing.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      show(at + step);
    }
  });
  reading.textContent = 'Point at the chart, or focus it and use the arrow keys, to read hit ratios.';
}
