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

document.addEventListener('visibilitychange', () => { if (document.hidden) emitEvent('page_hidden'); });
