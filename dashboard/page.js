// What the pages do in the browser by themselves.

function chartOf(button) {
  const element = button.closest('section').querySelector('.nicegui-echart');
  return getElement(Number(element.id.slice(1))).chart;
}

function zoomChart(button) {
  const tool = { type: 'takeGlobalCursor', key: 'dataZoomSelect', dataZoomSelectActive: true };
  chartOf(button).dispatchAction(tool);
}

function showAll(button) {
  const chart = chartOf(button);
  const batch = chart.getOption().dataZoom.map((_, dataZoomIndex) => ({ dataZoomIndex, start: 0, end: 100 }));
  chart.dispatchAction({ type: 'dataZoom', batch });
}

// Saves a chart as it is now, zoom included: drawn once more without a page, on white and with its title.
async function saveChart(button, kind) {
  const { echarts } = await import('nicegui-echart');
  const chart = chartOf(button);
  const title = button.closest('section').querySelector('.card-title').textContent;
  const size = { width: chart.getWidth(), height: chart.getHeight() + 30 };
  const copy = echarts.init(null, null, { renderer: 'svg', ssr: true, ...size });
  const ink = getComputedStyle(document.body).getPropertyValue('--soft');
  const onWhite = value => value === ink ? '#5f6670' : Array.isArray(value) ? value.map(onWhite)
    : value?.constructor === Object ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, onWhite(v)])) : value;
  const options = onWhite(chart.getOption());
  options.grid?.forEach(grid => grid.top = (parseFloat(grid.top) || 0) + 30);
  options.parallel?.forEach(parallel => parallel.top = (parseFloat(parallel.top) || 0) + 30);
  options.legend?.forEach(legend => { if (legend.bottom == null) legend.top = 30; });
  const style = { fontSize: 14, color: '#1f2328', fontFamily: 'sans-serif' };
  copy.setOption({ ...options, toolbox: [], backgroundColor: '#ffffff',
    title: { text: title, left: 8, top: 6, textStyle: style } });
  let href = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(copy.renderToSVGString());
  copy.dispose();
  if (kind == 'png') {
    const image = new Image(); image.src = href; await image.decode();
    const canvas = Object.assign(document.createElement('canvas'),
      { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    href = canvas.toDataURL('image/png');
  }
  const download = title.replace(/[^\p{L}\p{N}]/gu, '_').toLowerCase() + '.' + kind;
  Object.assign(document.createElement('a'), { href, download }).click();
}

// Shows the numbers of a chart below it, or hides them again: also for those who cannot see the chart.
function showTable(button) {
  const card = button.closest('section');
  const before = card.querySelector('.numbers');
  if (before) return before.remove();
  const text = value => value == null ? '' : String(value);
  const options = chartOf(button).getOption();
  const axes = options.parallelAxis?.map(axis => axis.name) ?? [options.xAxis[0].name, 'value'];
  const rows = [['', ...axes], ...options.series.flatMap(series => series.data.map(
    point => [point.name ?? series.name, ...(point.value ?? point)].map(text)))];
  const table = document.createElement('table');
  for (const cells of rows) {
    const row = table.insertRow();
    for (const cell of cells) {
      const element = document.createElement(row.rowIndex ? 'td' : 'th');
      element.textContent = cell;
      row.append(element);
    }
  }
  const place = Object.assign(document.createElement('div'), { className: 'numbers', tabIndex: 0 });
  place.append(table);
  card.append(place);
}

document.addEventListener('visibilitychange', () => { if (document.hidden) emitEvent('page_hidden'); });
