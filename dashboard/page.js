// What the pages do in the browser by themselves.

// A tool of each chart, as ECharts' own "save as PNG": the chart as it is now, zoom included.
async function saveAsSvg(model, chart) {
  const { echarts } = await import('nicegui-echart');
  const size = { width: chart.getWidth(), height: chart.getHeight() };
  const copy = echarts.init(null, null, { renderer: 'svg', ssr: true, ...size });
  const { toolbox, ...options } = model.getOption();
  copy.setOption({ ...options, backgroundColor: toolbox[0].feature.saveAsImage.backgroundColor });
  const href = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(copy.renderToSVGString());
  copy.dispose();
  Object.assign(document.createElement('a'), { href, download: toolbox[0].feature.saveAsImage.name + '.svg' }).click();
}

// Shows the numbers of a chart in a table below it, or hides them again.
function showNumbers(button) {
  const card = button.closest('section');
  const before = card.querySelector('.numbers');
  if (before) return before.remove();
  const options = getElement(Number(card.querySelector('.nicegui-echart').id.slice(1))).chart.getOption();
  const axes = options.parallelAxis?.map(axis => axis.name) ?? [options.xAxis[0].name, 'value'];
  const rows = [['', ...axes], ...options.series.flatMap(series => series.data.map(
    point => [point.name ?? series.name, ...(point.value ?? point)].map(value => String(value ?? ''))))];
  const place = Object.assign(document.createElement('div'), { className: 'numbers', tabIndex: 0 });
  const table = place.appendChild(document.createElement('table'));
  for (const cells of rows) {
    const row = table.insertRow();
    for (const cell of cells) {
      row.append(Object.assign(document.createElement(row.rowIndex ? 'td' : 'th'), { textContent: cell }));
    }
  }
  card.append(place);
}

document.addEventListener('visibilitychange', () => { if (document.hidden) emitEvent('page_hidden'); });
